#![allow(unused_variables)]

use axum::{Json, Router};
use axum::routing::post;
use idem_ui::{Account, App, Payment};

#[axum::debug_handler(state = App)]
async fn pay(Json(payment): Json<Payment>, account: Account) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
