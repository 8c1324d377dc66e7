#![allow(unused_variables)]

use idem_ui::*;

const KEY: &str = "x-key";

#[idempotent(scope = "pay", tenant = account.id, key = header(KEY))]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
