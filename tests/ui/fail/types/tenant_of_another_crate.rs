#![allow(dead_code, unused_variables)]

use idem_ui::*;

use std::net::IpAddr;

use axum::extract::Path;

#[idempotent(scope = "pay", tenant = address)]
async fn pay(Path(address): Path<IpAddr>, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
