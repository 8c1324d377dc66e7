#![allow(unused_variables)]

use axum::{Json, Router};
use axum::http::StatusCode;
use axum::routing::post;
use idem_ui::{Account, App, Payment};

#[axum::debug_handler(state = App)]
async fn pay(
    account: Account,
    payment: Payment,
) -> Result<(StatusCode, Json<Payment>), StatusCode> {
    Err(StatusCode::CONFLICT)
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
