#![deny(warnings)]
#![allow(dead_code)]

use axum::routing::post;
use idem_ui::{Account, App, PgConnection, Router, idempotent};

struct Result;
struct Box;
struct Option;
struct String;
struct Ok;
struct Some;
struct Duration;
struct Policy;
const POLICY: i64 = 1;

#[idempotent(scope = "locals", tenant = request.id + POLICY, wait = "1s")]
async fn call(
    request: Account,
    tx: Account,
    lease: Account,
    key: &mut PgConnection,
    options: Account,
    arg0: Account,
    claim: axum::body::Bytes,
) -> axum::body::Bytes {
    let _ = (tx.id, lease.id, key, options.id, arg0.id, Result, Box, Option, String, Ok, Some);
    let _: (i64, Policy, Duration) = (POLICY, Policy, Duration);
    claim
}

#[idempotent(scope = "same", tenant = arg0.id)]
async fn arg0(arg0: Account, _tx: &mut PgConnection) {}

mod bare {
    use super::*;

    #[idempotent(scope = "bare", tenant = shared)]
    pub(super) async fn call(_tx: &mut PgConnection) {}
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(call).put(arg0).patch(bare::call));
}
