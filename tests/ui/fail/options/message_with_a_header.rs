#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "pay", tenant = "orders", key = header("x-id"))]
async fn on_order_paid(tx: &mut PgConnection, event: OrderPaid) -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
