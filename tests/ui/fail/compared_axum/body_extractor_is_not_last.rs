#![allow(unused_variables)]

use idem_ui::*;

async fn pay(Json(payment): Json<Payment>, account: Account) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
