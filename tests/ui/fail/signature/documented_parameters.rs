#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(
    /// The transaction.
    tx: &mut PgConnection,
    /// The body
    /// as it is.
    body: String,
) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
