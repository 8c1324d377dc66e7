//! Accounts and their balances.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sqlx::{SqliteConnection, SqlitePool};

pub(crate) const SCHEMA: &str = "\
    create table if not exists accounts (account text primary key, balance integer not null)";

#[derive(Serialize)]
pub(crate) struct Account {
    account: String,
    balance: i64,
}

/// Twice would be twice the money: nothing here notices a repeat.
pub(crate) async fn credit(
    tx: &mut SqliteConnection,
    account: &str,
    amount: i64,
) -> Result<(), sqlx::Error> {
    let sql = "insert into accounts (account, balance) values ($1, $2) \
               on conflict (account) do update set balance = balance + excluded.balance";
    sqlx::query(sql)
        .bind(account)
        .bind(amount)
        .execute(tx)
        .await?;
    Ok(())
}

pub(crate) async fn find(pool: &SqlitePool, account: String) -> Result<Account, sqlx::Error> {
    let query = sqlx::query_scalar("select balance from accounts where account = $1");
    let balance = query.bind(&account).fetch_optional(pool).await?;
    let balance = balance.unwrap_or(0);
    Ok(Account { account, balance })
}

/// The sender tries again later.
pub(crate) struct ApiError;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        tracing::error!(%error, "the database failed");
        Self
    }
}
