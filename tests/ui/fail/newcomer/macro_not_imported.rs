#![allow(unused_variables)]

use idem_ui::{Account, App, PgConnection, Router, post};

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
