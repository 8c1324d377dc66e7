//! Orders and stock: plain SQL, on whatever connection the caller has.

use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use sqlx::{SqliteConnection, SqlitePool};

use crate::api::ApiError;

pub(crate) const SCHEMA: &str = "\
    create table if not exists stock (sku text primary key, available integer not null);
    create table if not exists orders (id integer primary key, account text not null, \
    sku text not null, quantity integer not null, amount integer not null, \
    status text not null, charge_id text)";

/// What there is of each article before the first order.
const AT_FIRST: i64 = 1000;

#[derive(Deserialize)]
pub(crate) struct NewOrder {
    pub(crate) sku: String,
    #[serde(deserialize_with = "positive")]
    pub(crate) quantity: i64,
    #[serde(deserialize_with = "positive")]
    pub(crate) amount: i64,
    pub(crate) card: String,
}

#[derive(Serialize, Deserialize, sqlx::FromRow)]
pub(crate) struct Order {
    id: i64,
    sku: String,
    quantity: i64,
    amount: i64,
    status: String,
    charge_id: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Stock {
    sku: String,
    available: i64,
}

fn positive<'de, D: Deserializer<'de>>(number: D) -> Result<i64, D::Error> {
    match i64::deserialize(number)? {
        positive @ 1.. => Ok(positive),
        _ => Err(D::Error::custom("not above zero")),
    }
}

/// Takes the stock and notes the order.
pub(crate) async fn reserve(
    tx: &mut SqliteConnection,
    account: &str,
    order: &NewOrder,
) -> Result<i64, ApiError> {
    let first = "insert into stock (sku, available) values ($1, $2) on conflict do nothing";
    let first = sqlx::query(first).bind(&order.sku).bind(AT_FIRST);
    first.execute(&mut *tx).await?;
    let take = "update stock set available = available - $1 where sku = $2 and available >= $1";
    let take = sqlx::query(take).bind(order.quantity).bind(&order.sku);
    if take.execute(&mut *tx).await?.rows_affected() == 0 {
        return Err(ApiError(StatusCode::CONFLICT, "not enough in stock"));
    }
    let sql = "insert into orders (account, sku, quantity, amount, status) \
               values ($1, $2, $3, $4, 'reserved') returning id";
    let note = sqlx::query_scalar(sql)
        .bind(account)
        .bind(&order.sku)
        .bind(order.quantity)
        .bind(order.amount);
    Ok(note.fetch_one(tx).await?)
}

pub(crate) async fn confirm(
    tx: &mut SqliteConnection,
    id: i64,
    charge_id: &str,
) -> Result<Order, ApiError> {
    let sql = "update orders set status = 'confirmed', charge_id = $1 where id = $2 returning *";
    let confirm = sqlx::query_as(sql).bind(charge_id).bind(id);
    Ok(confirm.fetch_one(tx).await?)
}

/// Gives the stock back and forgets the order.
pub(crate) async fn cancel(
    tx: &mut SqliteConnection,
    id: i64,
    order: &NewOrder,
) -> Result<(), ApiError> {
    let give_back = "update stock set available = available + $1 where sku = $2";
    let give_back = sqlx::query(give_back).bind(order.quantity).bind(&order.sku);
    give_back.execute(&mut *tx).await?;
    let forget = sqlx::query("delete from orders where id = $1").bind(id);
    forget.execute(tx).await?;
    Ok(())
}

pub(crate) async fn list(pool: &SqlitePool, account: &str) -> Result<Vec<Order>, sqlx::Error> {
    let query = sqlx::query_as("select * from orders where account = $1 order by id");
    query.bind(account).fetch_all(pool).await
}

pub(crate) async fn stock(pool: &SqlitePool, sku: String) -> Result<Stock, sqlx::Error> {
    let query = sqlx::query_scalar("select available from stock where sku = $1").bind(&sku);
    let available = query.fetch_optional(pool).await?.unwrap_or(AT_FIRST);
    Ok(Stock { sku, available })
}
