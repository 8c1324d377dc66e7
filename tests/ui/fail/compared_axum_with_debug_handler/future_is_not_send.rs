#![allow(unused_variables)]

use axum::Router;
use axum::routing::post;
use idem_ui::{Account, App};

#[axum::debug_handler(state = App)]
async fn pay(account: Account) {
    let rc = std::rc::Rc::new(account);
    std::future::ready(()).await;
    drop(rc);
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
