#![allow(unused_variables)]

use idem_ui::*;
use idem_runtime::Lease;

#[idempotent(scope = "pay", tenant = account.id, lease = "2h", ttl = "1h")]
async fn pay(account: Account, lease: &Lease<Postgres>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
