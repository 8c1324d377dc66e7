#![deny(dead_code)]

use idem_ui::*;

#[idempotent(message, scope = "billing", tenant = "orders", key = event.id)]
async fn on_paid(_tx: &mut PgConnection, event: OrderPaid) -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
