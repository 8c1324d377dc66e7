#![deny(warnings)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, _tx: &mut PgConnection, Json(payment): Json<Payment>) {
    let amount = 1;
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
