#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = App)]
async fn pay(account: Account, tx: &mut PgConnection, payment: Payment) {}

fn main() {}
