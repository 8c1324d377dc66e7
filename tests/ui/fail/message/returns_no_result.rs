#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "paid", tenant = "orders", key = event.id)]
async fn on_order_paid(tx: &mut PgConnection, event: OrderPaid) -> i64 {
    1
}

async fn consume(idempotency: Idempotency<Postgres>, event: OrderPaid) {
    let _ = event;
}

fn main() {}
