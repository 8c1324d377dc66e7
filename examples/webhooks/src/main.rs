//! A receiver of webhooks that credits an account once for each event, however often it is sent.
//! `cargo run -p example-webhooks` keeps its data in `webhooks.db`.

mod accounts;
mod signature;

use std::{env, error::Error, net::SocketAddr, time::Duration};

use accounts::{Account, ApiError, credit};
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use idem_runtime::{Idempotency, idempotent};
use serde::Deserialize;
use signature::{Secret, Verified};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{Sqlite, SqlitePool};
use tokio::net::TcpListener;
use tokio::signal::{ctrl_c, unix::SignalKind, unix::signal};

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
    pool: SqlitePool,
    secret: Secret,
}

/// A sender of Standard Webhooks repeats the `webhook-id` when it sends an event again, for three
/// days and more. There is one sender, and its secret is the credential, so nobody else is behind
/// `tenant = shared`.
#[idempotent(
    scope = "webhooks.payments",
    tenant = shared,
    key = header("webhook-id"),
    ttl = "14d"
)]
async fn on_payment(
    tx: &mut SqliteConnection,
    Verified(Message { data }): Verified<Message<Payment>>,
) -> Result<StatusCode, ApiError> {
    credit(tx, &data.account, data.amount).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A sender whose deliveries are numbered anew, and whose events have an id of their own. What else
/// it changes from one delivery to the next does not matter.
#[idempotent(
    scope = "webhooks.refunds",
    tenant = shared,
    key = event.id,
    fingerprint = (event.account, event.amount),
    ttl = "14d"
)]
async fn on_refund(
    tx: &mut SqliteConnection,
    Verified(event): Verified<Refund>,
) -> Result<StatusCode, ApiError> {
    credit(tx, &event.account, event.amount).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn get_account(
    State(pool): State<SqlitePool>,
    Path(account): Path<String>,
) -> Result<Json<Account>, ApiError> {
    Ok(Json(accounts::find(&pool, account).await?))
}

#[derive(Deserialize)]
struct Message<T> {
    data: T,
}

#[derive(Deserialize)]
struct Payment {
    account: String,
    amount: i64,
}

#[derive(Deserialize)]
struct Refund {
    id: String,
    account: String,
    amount: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = env::var("DATABASE_URL").unwrap_or("sqlite:webhooks.db".into());
    let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
    let pool = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await?;
    sqlx::raw_sql(accounts::SCHEMA).execute(&pool).await?;
    let idempotency = Idempotency::new(pool.clone());
    idempotency.migrate().await?;
    let sweeper = idempotency.spawn_sweeper(Duration::from_mins(1));

    // The demonstration's own; a real one comes from the sender, by way of the environment.
    let secret = env::var("WEBHOOK_SECRET").unwrap_or("whsec_aWRlbS1leGFtcGxlLXNlY3JldA==".into());
    let secret: Secret = secret.parse()?;
    let app = App {
        idempotency: idempotency.clone(),
        pool,
        secret: secret.clone(),
    };
    let router = Router::new()
        .route("/webhooks/payments", post(on_payment))
        .route("/webhooks/refunds", post(on_refund))
        .route("/accounts/{account}", get(get_account))
        .with_state(app);
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    print_delivery_to_try(listener.local_addr()?, &secret);
    let server = axum::serve(listener, router).with_graceful_shutdown(asked_to_stop());
    tokio::select! { done = server.into_future() => done?, () = stopped_long_ago() => {} }

    // Handlers whose client has left finish too.
    idempotency.drain(Duration::from_secs(30)).await;
    sweeper.stop().await;
    Ok(())
}

fn print_delivery_to_try(address: SocketAddr, secret: &Secret) {
    let body = r#"{"type": "payment.received", "data": {"account": "alice", "amount": 900}}"#;
    let now = signature::now();
    let signature = secret.sign("msg_1", &now.to_string(), body.as_bytes());
    println!(
        "listening on http://{address}; try a delivery, repeat it within five minutes, and see \
         http://{address}/accounts/alice:\n\
         curl -i http://{address}/webhooks/payments -H 'webhook-id: msg_1' \
         -H 'webhook-timestamp: {now}' -H 'webhook-signature: {signature}' \
         -H 'content-type: application/json' -d '{body}'"
    );
}

async fn asked_to_stop() {
    let mut terminate = signal(SignalKind::terminate()).expect("a handler for SIGTERM");
    tokio::select! { _ = ctrl_c() => {}, _ = terminate.recv() => {} }
}

/// A client that has sent half a request does not hold up the stop for longer.
async fn stopped_long_ago() {
    asked_to_stop().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
}
