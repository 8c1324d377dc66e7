#![allow(unused_variables)]

use idem_ui::*;

#[derive(Clone)]
struct Empty;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = Empty)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
