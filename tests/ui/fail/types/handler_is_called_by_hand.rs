#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay(tx: &mut PgConnection, body: String) {}
async fn other(tx: &mut PgConnection) {
    pay(tx, String::new()).await;
}

fn main() {}
