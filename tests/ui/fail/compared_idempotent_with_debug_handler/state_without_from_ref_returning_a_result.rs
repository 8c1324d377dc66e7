#![allow(unused_variables)]

use axum::{Json, Router};
use axum::http::StatusCode;
use axum::routing::post;
use idem_runtime::idempotent;
use idem_ui::{Account, Payment};
use sqlx::PgConnection;

#[derive(Clone)]
struct Other;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = Other)]
async fn pay(
    account: Account,
    tx: &mut PgConnection,
) -> Result<(StatusCode, Json<Payment>), StatusCode> {
    Err(StatusCode::CONFLICT)
}

fn main() {
    let _: Router<Other> = Router::new().route("/", post(pay));
}
