#![allow(dead_code, unused_variables)]

use idem_runtime::Claim;
use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(claim: &Claim) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
