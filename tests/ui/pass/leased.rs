#![deny(warnings)]

use idem_runtime::{Claim, Lease};
use idem_ui::*;

#[idempotent(scope = "state", tenant = account.id, lease = "10s", on_takeover = "reconcile")]
async fn by_state(account: Account, lease: &Lease<Postgres>, claim: &Claim, body: String) -> String {
    let _ = (lease, claim.key());
    body
}

#[idempotent(scope = "store", tenant = account.id, store = app.idempotency)]
async fn by_store(account: Account, State(app): State<App>, _lease: &Lease<Postgres>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(by_state).put(by_store));
}
