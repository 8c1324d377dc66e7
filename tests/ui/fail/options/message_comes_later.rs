#![allow(unused_variables)]

use idem_tests::ui::*;

#[idempotent(message, scope = "pay", tenant = "orders", key = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
