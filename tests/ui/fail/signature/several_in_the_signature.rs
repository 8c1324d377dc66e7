#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
unsafe fn pay(body: &str, Json(payment): Json<Payment>, account: Account) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
