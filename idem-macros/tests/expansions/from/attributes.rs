//! Where other attributes go, and what a generic handler becomes.

use axum::extract::State;
use axum::response::IntoResponse;
use idem_runtime::idempotent;
use idem_ui::{Account, App};
use sqlx::PgConnection;
use tracing::instrument;

/// Creates a payment.
#[idempotent(scope = "payments.create", tenant = account.id)]
#[instrument(skip_all)]
#[axum::debug_handler]
#[cfg_attr(test, must_use)]
async fn create_payment<R: Default, const N: usize>(
    account: Account,
    tx: &mut PgConnection,
    State(app): State<App>,
) -> impl IntoResponse {
    let _ = (account, tx, app, R::default());
    [0; N]
}
