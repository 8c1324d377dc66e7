#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection) {}

fn main() {
    let _: Router = Router::new().route("/", post(pay));
}
