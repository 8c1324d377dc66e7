//! Messages need no axum: `scripts/test features` builds and runs this without it.

use std::error::Error;

use idem_runtime::{Idempotency, Outcome, idempotent};
use serde::Serialize;
use sqlx::{SqliteConnection, SqlitePool};

#[derive(Clone, Serialize)]
struct OrderPaid {
    order: i64,
}

#[idempotent(message, scope = "billing.order-paid", tenant = "orders", key = event.order, ttl = "14d")]
async fn on_order_paid(tx: &mut SqliteConnection, event: OrderPaid) -> Result<i64, sqlx::Error> {
    let insert = "insert into invoices (order_id) values ($1) returning id";
    sqlx::query_scalar(insert)
        .bind(event.order)
        .fetch_one(tx)
        .await
}

#[tokio::test]
async fn a_message_is_consumed_once_without_axum() -> Result<(), Box<dyn Error>> {
    let pool = SqlitePool::connect("sqlite::memory:").await?;
    let table = "create table invoices (id integer primary key, order_id integer not null)";
    sqlx::query(table).execute(&pool).await?;
    let idempotency = Idempotency::new(pool);
    idempotency.migrate().await?;

    let event = OrderPaid { order: 17 };
    let first = on_order_paid(&idempotency, event.clone()).await?;
    assert_eq!(first, Outcome::Executed(1));
    assert_eq!(
        on_order_paid(&idempotency, event).await?,
        Outcome::Replayed(1)
    );
    Ok(())
}
