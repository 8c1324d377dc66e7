#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id, crate = ::std)]
async fn pay(account: Account, tx: &mut PgConnection) {}

fn main() {}
