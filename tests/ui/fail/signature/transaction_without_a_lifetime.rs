#![allow(dead_code, unused_variables)]

use idem_ui::*;
use sqlx::Transaction;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut Transaction<Postgres>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
