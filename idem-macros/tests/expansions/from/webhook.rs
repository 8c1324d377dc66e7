//! Key and ttl are expressions over the arguments.

use std::time::Duration;

use axum::Json;
use idem_runtime::idempotent;
use idem_ui::Payment;
use sqlx::SqliteConnection;

#[idempotent(
    scope = "webhooks.paid",
    tenant = payment.currency,
    key = payment.amount,
    ttl = Duration::from_mins(1),
)]
async fn on_paid(tx: &mut SqliteConnection, Json(payment): Json<Payment>) {
    let _ = (tx, payment);
}
