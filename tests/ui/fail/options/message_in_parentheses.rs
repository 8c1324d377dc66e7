#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(message("orders"), scope = "pay", tenant = "orders", key = event.id)]
async fn pay(tx: &mut PgConnection, event: OrderPaid) -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
