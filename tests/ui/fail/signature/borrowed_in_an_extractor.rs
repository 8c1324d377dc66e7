#![allow(dead_code, unused_variables)]

use axum::extract::Path;
use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(Path(id): Path<&str>, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
