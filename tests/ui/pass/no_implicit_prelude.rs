#![no_implicit_prelude]
#![deny(warnings)]

use ::idem_ui::{Account, App, PgConnection, Router, idempotent, post};

#[idempotent(scope = "bare", tenant = account.id, ttl = "1h", wait = "1s", fingerprint = (account.id,))]
async fn handler(account: Account, _tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(handler));
}
