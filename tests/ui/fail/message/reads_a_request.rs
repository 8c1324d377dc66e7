#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "pay", tenant = "orders", key = event.id)]
async fn on_paid(tx: &mut PgConnection, Json(event): Json<OrderPaid>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {}
