#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "paid", tenant = "orders", key = event.id, record = "all", required = true)]
async fn on_order_paid(tx: &mut PgConnection, event: OrderPaid) -> Result<(), ApiError> {
    Ok(())
}

async fn consume(idempotency: Idempotency<Postgres>, event: OrderPaid) {
    let _ = on_order_paid(&idempotency, event).await;
}

fn main() {}
