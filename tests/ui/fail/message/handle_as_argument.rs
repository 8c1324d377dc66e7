#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "pay", tenant = "orders", key = event.id)]
async fn pay(idempotency: &Idempotency<Postgres>, tx: &mut PgConnection, event: OrderPaid) -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
