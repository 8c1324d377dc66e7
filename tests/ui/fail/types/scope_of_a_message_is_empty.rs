#![allow(dead_code, unused_variables)]

use idem_ui::*;

const NAME: &str = "";

#[idempotent(message, scope = NAME, tenant = "orders", key = event.id)]
async fn on_paid(tx: &mut PgConnection, event: OrderPaid) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {}
