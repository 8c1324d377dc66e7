#![allow(dead_code, unused_variables)]

use idem_ui::*;

trait Ledger {}

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection, ledger: &impl Ledger) {}

fn main() {}
