#![allow(unused_variables)]

use idem_ui::*;
use idem_runtime::Lease;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection, lease: &Lease<Postgres>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
