#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(
    scope = 5,
    tenant = 1,
    ttl = true,
    key = 3,
    required = 1,
    fingerprint = 2,
    wait = 1,
    timeout = 'a',
    record = true,
    max_response = 1.5,
    store = "x",
    crate = 5
)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
