#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(app: State<Ap>, account: Account, tx: &mut PgConnection) {}

fn main() {}
