#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection) -> ! {
    panic!("not yet")
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
