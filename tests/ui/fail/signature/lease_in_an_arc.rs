#![allow(dead_code, unused_variables)]

use idem_runtime::Lease;
use idem_ui::*;
use std::sync::Arc;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, lease: Arc<Lease<Postgres>>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
