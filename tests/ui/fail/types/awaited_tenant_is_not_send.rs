#![allow(dead_code, unused_variables)]

use idem_ui::*;

async fn find(account: &Account) -> i64 {
    let id = std::rc::Rc::new(account.id);
    std::future::ready(()).await;
    *id
}

#[idempotent(scope = "pay", tenant = find(account).await)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
