#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared, crate = ::idem, ttl = "3h", wait = "5s", record = "all")]
async fn pay(tx: &mut PgConnection, body: String) -> Result<String, ApiError> {
    Ok(body)
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
