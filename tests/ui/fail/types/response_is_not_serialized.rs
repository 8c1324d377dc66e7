#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct Pay {
    a: i64,
}

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) -> Json<Pay> {
    todo!()
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
