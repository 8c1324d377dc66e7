#![allow(unused_variables)]

use idem_ui::*;

const SCOPE: &str = "Pay!";

#[idempotent(scope = SCOPE, tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
