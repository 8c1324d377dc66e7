#![allow(dead_code, unused_variables)]

use idem_ui::*;

mod scopes {
    const PAY: &str = "pay";
}

#[idempotent(scope = scopes::PAY, tenant = shared)]
async fn pay(tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
