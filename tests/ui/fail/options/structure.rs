#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(Options { scope: "pay", tenant: shared })]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
