#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "paid", tenant = "orders", key = 1)]
async fn on_order_paid(tx: &mut PgConnection) -> Result<(), ApiError> {
    Ok(())
}

async fn consume(idempotency: Idempotency<Postgres>, event: OrderPaid) {
    let _ = on_order_paid(&idempotency).await;
}

fn main() {}
