#![deny(warnings)]

use axum::{Json, Router, extract::FromRef, http::StatusCode, routing::post};
use idem_runtime::{Idempotency, idempotent};
use idem_ui::{Account, ApiError, Payment};
use sqlx::{PgConnection, Postgres};

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Postgres>,
}

#[idempotent(scope = "payments.create", tenant = account.id, ttl = "24h")]
async fn create_payment(
    account: Account,
    tx: &mut PgConnection,
    Json(payment): Json<Payment>,
) -> Result<(StatusCode, Json<Payment>), ApiError> {
    sqlx::query("insert into payments (account, amount) values ($1, $2)")
        .bind(account.id)
        .bind(payment.amount)
        .execute(tx)
        .await?;
    Ok((StatusCode::CREATED, Json(payment)))
}

fn main() {
    let _: Router<App> = Router::new().route("/payments", post(create_payment));
}
