#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "pay", tenant = "orders", key = event.id)]
async fn pay(tx: &mut PgConnection, event: OrderPaid) -> Outcom {
    Ok(())
}

fn main() {}
