#![deny(warnings)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
#[deprecated = "use `pay_again`"]
async fn pay(_tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
