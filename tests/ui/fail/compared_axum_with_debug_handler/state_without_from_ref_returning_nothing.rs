#![allow(unused_variables)]

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use idem_runtime::Idempotency;
use idem_ui::Account;
use sqlx::Postgres;

#[derive(Clone)]
struct Other;

#[axum::debug_handler(state = Other)]
async fn pay(account: Account, State(idempotency): State<Idempotency<Postgres>>) {}

fn main() {
    let _: Router<Other> = Router::new().route("/", post(pay));
}
