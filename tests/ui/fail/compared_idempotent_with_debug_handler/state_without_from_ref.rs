#![allow(unused_variables)]

use idem_ui::*;

#[derive(Clone)]
struct Other;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = Other)]
async fn pay(account: Account, tx: &mut PgConnection) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<Other> = Router::new().route("/", post(pay));
}
