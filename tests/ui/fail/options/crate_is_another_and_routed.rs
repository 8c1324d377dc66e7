#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id, crate = ::idem_ui, key = body)]
async fn pay(account: Account, tx: &mut PgConnection, body: String) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
