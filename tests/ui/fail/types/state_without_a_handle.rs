#![allow(unused_variables)]

use idem_ui::*;

#[derive(Clone)]
struct Other;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<Other> = Router::new().route("/", post(pay));
}
