#![allow(dead_code, unused_variables)]

use idem_runtime::Lease;
use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection, lease: Lease<Postgres>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
