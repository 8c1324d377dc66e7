#![allow(unused_variables)]

use idem_ui::*;

fn find(account: &Account) -> Result<i64, ApiError> {
    Ok(account.id)
}

#[idempotent(scope = "pay", tenant = find(account)?)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
