#![allow(dead_code, unused_variables)]

use idem_ui::*;
use std::sync::{Arc, Mutex};

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: Arc<Mutex<PgConnection>>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
