#![allow(unused_variables)]

use idem_ui::*;

fn into_id(account: Account) -> i64 {
    account.id
}

#[idempotent(scope = "pay", tenant = into_id(account))]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
