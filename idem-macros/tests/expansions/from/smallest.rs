//! Nothing is taken from the request.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(scope = "reports.close", tenant = shared)]
async fn close_reports(_tx: &mut PgConnection) {}
