#![allow(unused_variables)]

use axum::{Json, Router};
use axum::routing::post;
use idem_runtime::idempotent;
use idem_ui::{Account, App, Payment};
use sqlx::PgConnection;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = App)]
async fn pay(Json(payment): Json<Payment>, account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
