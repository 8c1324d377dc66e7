#![allow(dead_code, unused_variables)]

use idem_ui::*;
use sqlx::pool::PoolConnection;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PoolConnection<Postgres>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
