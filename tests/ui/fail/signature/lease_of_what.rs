#![allow(unused_variables)]

use idem_ui::*;
type Lease = idem_runtime::Lease<Postgres>;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, lease: &Lease) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
