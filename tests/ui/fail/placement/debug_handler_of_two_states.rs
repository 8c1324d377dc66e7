#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler]
async fn pay(
    State(idempotency): State<Idempotency<Postgres>>,
    account: Account,
    tx: &mut PgConnection,
    State(app): State<App>,
) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
