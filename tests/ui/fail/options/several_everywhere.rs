#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(ttl = 24, tenant = acount.id)]
fn pay(account: &Account, Json(payment): Json<Payment>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
