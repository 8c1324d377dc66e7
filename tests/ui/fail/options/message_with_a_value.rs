#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(message = true, scope = "pay", tenant = event.id, key = event.id)]
async fn on_order_paid(tx: &mut PgConnection, event: OrderPaid) -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
