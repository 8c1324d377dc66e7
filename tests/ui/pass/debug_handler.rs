//! `#[debug_handler]` below `#[idempotent]`, wherever the state is said.

use std::sync::Arc;

use idem_ui::*;

#[idempotent(scope = "a", tenant = account.id)]
#[axum::debug_handler(state = App)]
async fn named(account: Account, _tx: &mut PgConnection, Json(_): Json<Payment>) {}

#[idempotent(scope = "b", tenant = account.id)]
#[axum::debug_handler]
async fn of_an_argument(account: Account, _tx: &mut PgConnection, State(_app): State<App>) {}

#[idempotent(scope = "c", tenant = account.id, store = app.idempotency)]
#[cfg_attr(all(), axum::debug_handler(state = Arc<App>))]
async fn sometimes(account: Account, _tx: &mut PgConnection, State(app): State<Arc<App>>) {}

#[idempotent(scope = "d", tenant = shared)]
#[axum::debug_handler(state = App)]
async fn without_arguments(_tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new()
        .route("/a", post(named))
        .route("/b", post(of_an_argument))
        .route("/d", post(without_arguments));
    let _: Router<Arc<App>> = Router::new().route("/c", post(sometimes));
}
