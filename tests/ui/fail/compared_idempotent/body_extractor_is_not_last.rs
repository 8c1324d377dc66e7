#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(Json(payment): Json<Payment>, account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
