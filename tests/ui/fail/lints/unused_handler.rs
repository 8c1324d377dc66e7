#![deny(dead_code)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, _tx: &mut PgConnection) {}

fn main() {}
