#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[cfg_attr(all(), idempotent(scope = "pay", tenant = shared))]
#[cfg_attr(all(), idempotent(scope = "pay", tenant = shared))]
async fn pay(tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
