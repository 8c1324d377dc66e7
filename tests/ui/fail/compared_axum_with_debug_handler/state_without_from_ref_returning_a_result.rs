#![allow(unused_variables)]

use axum::{Json, Router};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use idem_runtime::Idempotency;
use idem_ui::{Account, Payment};
use sqlx::Postgres;

#[derive(Clone)]
struct Other;

#[axum::debug_handler(state = Other)]
async fn pay(
    account: Account,
    State(idempotency): State<Idempotency<Postgres>>,
) -> Result<(StatusCode, Json<Payment>), StatusCode> {
    Err(StatusCode::CONFLICT)
}

fn main() {
    let _: Router<Other> = Router::new().route("/", post(pay));
}
