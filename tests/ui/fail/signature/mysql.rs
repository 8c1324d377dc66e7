#![allow(unused_variables)]

use idem_ui::*;
struct MySqlConnection;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut MySqlConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
