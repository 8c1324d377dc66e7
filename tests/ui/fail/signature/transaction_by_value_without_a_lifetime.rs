#![allow(dead_code, unused_variables)]

use idem_ui::*;
use sqlx::Transaction;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: Transaction<Postgres>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
