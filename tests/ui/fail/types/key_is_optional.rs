#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared, key = event.key)]
async fn pay(tx: &mut PgConnection, Json(event): Json<Ev>) {}
#[derive(serde::Deserialize)]
struct Ev {
    key: Option<String>,
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
