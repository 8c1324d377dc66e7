#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(
    account: Account,
    tx: &mut PgConnection,
) {
    let rc = std::rc::Rc::new(account);
    let _ = sqlx::query("select 1").execute(tx).await;
    drop(rc);
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
