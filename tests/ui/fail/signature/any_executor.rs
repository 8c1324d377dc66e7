#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay<'e, E: sqlx::Executor<'e>>(tx: E) {}

fn main() {}
