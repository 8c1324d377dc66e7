#![allow(unused_variables)]

use idem_ui::*;
type Db = PgConnection;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut Db) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
