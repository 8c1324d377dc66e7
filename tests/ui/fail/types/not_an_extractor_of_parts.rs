#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(payment: Payment, tx: &mut PgConnection, account: Account) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
