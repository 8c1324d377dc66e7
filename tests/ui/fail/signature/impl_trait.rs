#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(repo: impl Send, tx: &mut PgConnection) {}

fn main() {}
