#![allow(unused_variables)]

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use idem_ui::{Account, App, Payment};

async fn pay(account: Account, payment: Payment) -> impl IntoResponse {
    StatusCode::CREATED
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
