#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) -> Result<String> {
    Ok(String::new())
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
