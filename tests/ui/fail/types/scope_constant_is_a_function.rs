#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[allow(non_snake_case)]
fn SCOPE() -> &'static str {
    "pay"
}

#[idempotent(scope = SCOPE, tenant = shared)]
async fn pay(tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
