#![deny(warnings)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
#[expect(unused_variables)]
async fn pay(_tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
