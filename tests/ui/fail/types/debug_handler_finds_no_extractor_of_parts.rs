#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = App)]
async fn pay(payment: Payment, tx: &mut PgConnection, account: Account) {}

fn main() {}
