#![allow(unused_variables)]

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use idem_runtime::idempotent;
use idem_ui::Account;
use sqlx::PgConnection;

#[derive(Clone)]
struct Other;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = Other)]
async fn pay(account: Account, tx: &mut PgConnection) -> impl IntoResponse {
    StatusCode::CREATED
}

fn main() {
    let _: Router<Other> = Router::new().route("/", post(pay));
}
