#![allow(dead_code, unused_variables)]

use idem_ui::*;

const TTL: &str = "24h";

#[idempotent(scope = "pay", tenant = shared, ttl = TTL)]
async fn pay(tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
