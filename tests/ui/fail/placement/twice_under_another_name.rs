#![allow(dead_code, unused_variables)]

use idem_runtime::idempotent as retry;
use idem_ui::*;
#[retry(scope = "pay", tenant = shared)]
#[retry(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
