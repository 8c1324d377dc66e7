//! The application behind idem.

use std::time::Duration;

use axum::extract::FromRef;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::routing::post;
use axum::{Json, Router};
use idem_runtime::{Idempotency, Lease, idempotent};
use sqlx::{PgConnection, PgPool, Postgres};

use crate::Failure;
use crate::payments::{Account, ApiError, CreatePayment, Payment, pay, transfer};

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Postgres>,
}

#[idempotent(scope = "payments.create", tenant = account.0)]
async fn atomic(
    account: Account,
    tx: &mut PgConnection,
    Json(payment): Json<CreatePayment>,
) -> Result<(StatusCode, Json<Payment>), ApiError> {
    Ok((
        StatusCode::CREATED,
        Json(pay(tx, &account, &payment).await?),
    ))
}

#[idempotent(scope = "transfers.create", tenant = account.0)]
async fn atomic_transfer(
    account: Account,
    tx: &mut PgConnection,
    Json(payment): Json<CreatePayment>,
) -> Result<(StatusCode, Json<Payment>), ApiError> {
    let paid = transfer(tx, &account, &payment).await?;
    Ok((StatusCode::CREATED, Json(paid)))
}

#[idempotent(scope = "payments.leased", tenant = account.0)]
async fn leased(
    account: Account,
    lease: &Lease<Postgres>,
    Json(payment): Json<CreatePayment>,
) -> (StatusCode, Json<Payment>) {
    let paid = Payment {
        id: i64::from(lease.attempt()),
        account: account.0,
        amount: payment.amount,
        currency: payment.currency,
    };
    (StatusCode::CREATED, Json(paid))
}

/// The owner of the hot key takes its time.
#[idempotent(scope = "payments.slow", tenant = account.0)]
async fn slow(
    account: Account,
    tx: &mut PgConnection,
    Json(payment): Json<CreatePayment>,
) -> Result<(StatusCode, Json<Payment>), ApiError> {
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok((
        StatusCode::CREATED,
        Json(pay(tx, &account, &payment).await?),
    ))
}

/// Refuses at once and does nothing else, as the least that a server can do about a storm.
async fn refusing() -> (StatusCode, [(HeaderName, &'static str); 2], String) {
    let headers = [
        (CONTENT_TYPE, "application/problem+json"),
        (RETRY_AFTER, "1"),
    ];
    (StatusCode::CONFLICT, headers, "x".repeat(300))
}

/// Makes the application.
///
/// # Errors
/// When the tables cannot be made.
pub async fn app(pool: PgPool) -> Result<Router, Failure> {
    let idempotency = Idempotency::new(pool);
    idempotency.migrate().await?;
    Ok(Router::new()
        .route("/payments", post(atomic))
        .route("/transfers", post(atomic_transfer))
        .route("/leased", post(leased))
        .route("/slow", post(slow))
        .route("/refusing", post(refusing))
        .with_state(App { idempotency }))
}
