#![allow(unused_variables)]

use axum::Router;
use axum::routing::post;
use idem_runtime::idempotent;
use idem_ui::{Account, App, Payment};
use sqlx::SqliteConnection;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut SqliteConnection, payment: Payment) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
