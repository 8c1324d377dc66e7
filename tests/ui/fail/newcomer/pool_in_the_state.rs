#![allow(unused_variables)]

use idem_ui::*;
use sqlx::PgPool;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, State(pool): State<PgPool>) {
    drop(pool);
}

fn main() {
    let _: Router<PgPool> = Router::new().route("/", post(pay));
}
