#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay<'t>(account: Account, tx: &'t mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
