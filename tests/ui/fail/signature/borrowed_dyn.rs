#![allow(dead_code, unused_variables)]

use idem_ui::*;

trait Ledger {}

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection, ledger: &dyn Ledger) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
