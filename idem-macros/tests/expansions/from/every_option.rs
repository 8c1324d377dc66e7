//! Every option of atomic mode, with constants and expressions.

use axum::Json;
use axum::extract::State;
use idem_runtime::idempotent;
use idem_ui::{Account, App, Payment};
use sqlx::{Postgres, Transaction};

const SCOPE: &str = "payments.create";

#[idempotent(
    crate = ::idem_runtime,
    scope = SCOPE,
    tenant = account.id,
    ttl = "1h 30m",
    key = header("Webhook-Id"),
    required = false,
    fingerprint = (payment.amount, payment.currency),
    wait = "500ms",
    timeout = "20s",
    record = "success",
    max_response = "16KiB",
    store = app.idempotency,
)]
async fn create_payment(
    account: Account,
    State(app): State<App>,
    tx: &mut Transaction<'_, Postgres>,
    Json(payment): Json<Payment>,
) {
    let _ = (app, tx, payment);
}
