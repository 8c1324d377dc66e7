#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct DatabaseTransaction;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &DatabaseTransaction) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
