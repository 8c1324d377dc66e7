#![allow(unused_variables)]

use idem_tests::ui::*;

#[idempotent(message = true, scope = "pay", tenant = account.id, key = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
