#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "Pay", tennant = account.id, ttl = "0s", record = none, colour = 1)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
