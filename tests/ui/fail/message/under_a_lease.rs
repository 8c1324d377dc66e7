#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "paid", tenant = "orders", key = event.id)]
async fn on_order_paid(lease: &idem_runtime::Lease<Postgres>, event: OrderPaid) -> Result<(), ApiError> {
    Ok(())
}

async fn consume(idempotency: Idempotency<Postgres>, event: OrderPaid) {
    let _ = event;
}

fn main() {}
