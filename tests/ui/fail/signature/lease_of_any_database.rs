#![allow(dead_code, unused_variables)]

use idem_runtime::Lease;
use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay<DB>(account: Account, lease: &Lease<DB>)
where
    DB: sqlx::Database + Sync,
{
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay::<Postgres>));
}
