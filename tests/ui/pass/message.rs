#![deny(warnings)]

use idem_runtime::{Claim, OnceError, Outcome};
use idem_ui::*;
use sqlx::Transaction;

#[idempotent(message, scope = "billing.order-paid", tenant = "orders", key = event.id, ttl = "14d")]
async fn on_order_paid(tx: &mut PgConnection, event: OrderPaid) -> Result<(), ApiError> {
    sqlx::query("select $1").bind(event.amount).execute(tx).await?;
    Ok(())
}

type Answer<T> = Result<T, ApiError>;

/// Destructures, and is a part of a message with more to it.
#[idempotent(message, scope = "count", tenant = shared, key = id, fingerprint = (id, amount), wait = "5s", timeout = "10s")]
pub async fn count(
    factor: i64,
    OrderPaid { id, amount }: OrderPaid,
    claim: &Claim,
    tx: &mut Transaction<'_, Sqlite>,
) -> Answer<i64> {
    sqlx::query("select $1").bind(claim.key()).execute(&mut **tx).await?;
    Ok(amount * factor)
}

async fn consume(idempotency: Idempotency<Postgres>, event: OrderPaid) -> bool {
    let consumed: Result<Outcome<()>, OnceError<ApiError>> = on_order_paid(&idempotency, event).await;
    consumed.is_ok()
}

fn is_send<T: Send>(_: T) {}

fn main() {
    let _ = |idempotency: Idempotency<Sqlite>, other: Idempotency<Postgres>, event: OrderPaid| {
        is_send(count(&idempotency, 2, OrderPaid { id: 1, amount: 5 }));
        is_send(consume(other, event));
    };
}
