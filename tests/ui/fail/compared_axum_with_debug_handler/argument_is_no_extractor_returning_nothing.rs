#![allow(unused_variables)]

use axum::Router;
use axum::routing::post;
use idem_ui::{Account, App, Payment};

#[axum::debug_handler(state = App)]
async fn pay(account: Account, payment: Payment) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
