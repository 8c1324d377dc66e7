#![allow(unused_variables)]

use axum::Router;
use axum::routing::post;
use idem_ui::{Account, App, Payment};

async fn pay(account: Account) -> Payment {
    Payment { amount: 1, currency: String::new() }
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
