#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id, max-response = "16KiB")]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
