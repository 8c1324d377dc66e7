//! The example of the README.

use axum::Json;
use axum::http::StatusCode;
use idem_runtime::idempotent;
use idem_ui::{Account, ApiError, Payment};
use sqlx::PgConnection;

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
