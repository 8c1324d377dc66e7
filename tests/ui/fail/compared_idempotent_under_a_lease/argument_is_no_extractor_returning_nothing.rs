#![allow(unused_variables)]

use axum::Router;
use axum::routing::post;
use idem_runtime::{idempotent, Lease};
use idem_ui::{Account, App, Payment};
use sqlx::Postgres;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, lease: &Lease<Postgres>, payment: Payment) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
