#![allow(dead_code, unused_variables)]

use idem_ui::*;

fn digest(body: &str) -> Result<String, ApiError> {
    Ok(body.to_uppercase())
}

#[idempotent(scope = "pay", tenant = shared, fingerprint = digest(body)?)]
async fn pay(tx: &mut PgConnection, body: String) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
