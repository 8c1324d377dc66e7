#![allow(dead_code, unused_variables)]

use idem_ui::*;

// rustc says by itself that generators are experimental, as it does of every one.
#[idempotent(scope = "pay", tenant = account.id)]
async gen fn pay(account: Account, tx: &mut PgConnection) -> u8 {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
