#![deny(warnings)]

use idem_ui::*;

#[deprecated = "use `new`"]
fn old() {}

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(_tx: &mut PgConnection) {
    old();
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
