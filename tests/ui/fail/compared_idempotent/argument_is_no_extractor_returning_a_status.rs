#![allow(unused_variables)]

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use idem_runtime::idempotent;
use idem_ui::{Account, App, Payment};
use sqlx::PgConnection;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection, payment: Payment) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
