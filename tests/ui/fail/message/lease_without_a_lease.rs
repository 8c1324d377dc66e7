#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "paid", tenant = "orders", key = event.id, lease = "10s")]
async fn on_paid(tx: &mut PgConnection, event: OrderPaid) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {}
