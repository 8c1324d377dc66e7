#![allow(unused_variables)]

use idem_ui::*;
use idem_runtime::Claim;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection, claim: &mut Claim) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
