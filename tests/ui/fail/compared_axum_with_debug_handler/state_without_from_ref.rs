#![allow(unused_variables)]

use idem_ui::*;

#[derive(Clone)]
struct Other;

#[axum::debug_handler(state = Other)]
async fn pay(account: Account, State(idempotency): State<Idempotency<Postgres>>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<Other> = Router::new().route("/", post(pay));
}
