#![allow(unused_variables)]

use idem_ui::*;
use sqlx::PgPool;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, pool: PgPool) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
