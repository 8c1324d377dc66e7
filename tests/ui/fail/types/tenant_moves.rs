#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = { payment.currency })]
async fn pay(tx: &mut PgConnection, Json(payment): Json<Payment>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
