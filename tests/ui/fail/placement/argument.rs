#![allow(dead_code, unused_variables)]

use idem_ui::*;

async fn pay(#[idempotent(scope = "pay")] account: Account, tx: &mut PgConnection) {}

fn main() {}
