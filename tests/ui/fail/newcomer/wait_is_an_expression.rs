#![allow(unused_variables)]

use idem_ui::*;
use std::time::Duration;

#[idempotent(scope = "pay", tenant = account.id, wait = Duration::from_secs(5))]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
