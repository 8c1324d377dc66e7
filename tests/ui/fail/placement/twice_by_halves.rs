#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay")]
#[idempotent(tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
