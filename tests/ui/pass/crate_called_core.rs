#![deny(warnings)]

// A crate of this name takes the place of `::core` in every path.
extern crate idem_ui as core;

use core::{Account, App, PgConnection, Router, idempotent, post};

#[idempotent(scope = "core", tenant = account.id, ttl = "1h")]
async fn handler(account: Account, _tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(handler));
}
