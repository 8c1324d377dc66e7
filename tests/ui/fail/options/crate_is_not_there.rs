#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared, crate = ::idem)]
async fn pay(tx: &mut PgConnection, body: String) {}

fn main() {}
