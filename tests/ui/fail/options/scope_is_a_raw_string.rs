#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = r#"Pay now"#, tenant = shared)]
async fn pay(tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
