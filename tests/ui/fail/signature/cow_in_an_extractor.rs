#![allow(dead_code, unused_variables)]

use idem_ui::*;
use std::borrow::Cow;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection, Json(name): Json<Cow<'_, str>>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
