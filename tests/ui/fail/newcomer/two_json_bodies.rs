#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(
    account: Account,
    tx: &mut PgConnection,
    Json(payment): Json<Payment>,
    Json(other): Json<Payment>,
) {
    drop((payment, other));
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
