//! A handler whose effect is outside the database.

use axum::Json;
use idem_runtime::idempotent;
use idem_runtime::{Claim, Lease};
use idem_ui::{Account, Payment};
use sqlx::Postgres;

#[idempotent(scope = "charges.create", tenant = account.id, lease = "10s", on_takeover = "reconcile")]
async fn create_charge(
    account: Account,
    lease: &Lease<Postgres>,
    claim: &Claim,
    Json(payment): Json<Payment>,
) -> String {
    let _ = (lease, payment.amount);
    claim.derive_key("psp.charge").to_string()
}
