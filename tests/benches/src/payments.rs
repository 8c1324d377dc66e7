//! The application under test: what a handler does, whoever protects it.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

/// The caller, whom the load generator names in a header.
#[derive(Clone, Debug)]
pub struct Account(pub i64);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let account = parts
            .headers
            .get("x-account")
            .and_then(|value| value.to_str().ok());
        account
            .and_then(|account| account.parse().ok())
            .map(Self)
            .ok_or(StatusCode::UNAUTHORIZED)
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CreatePayment {
    pub amount: i64,
    pub currency: String,
    pub source: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Payment {
    pub id: i64,
    pub account: i64,
    pub amount: i64,
    pub currency: String,
}

/// What went wrong; the benchmark counts every answer that is no 2xx.
#[derive(Debug)]
pub struct ApiError(pub sqlx::Error);

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}

/// How many accounts there are; few enough to be cached, enough not to be waited for.
pub const ACCOUNTS: i64 = 10_000;

pub const TABLES: &str = "
    create table payments (
        id bigint generated always as identity primary key,
        account bigint not null, amount bigint not null, currency text not null);
    create table accounts (id bigint primary key, balance bigint not null) with (fillfactor = 80);
    insert into accounts select id, 0 from generate_series(0, 9999) as id;
    create table entries (
        id bigint generated always as identity primary key,
        payment bigint not null, account bigint not null, amount bigint not null);
    create table saved (
        user_id bigint not null, idempotency_key text not null,
        response_status_code smallint, response_headers jsonb, response_body bytea,
        created_at timestamptz not null, primary key (user_id, idempotency_key));";

/// The smallest handler that has an effect: one statement. Whatever idempotency costs shows
/// nowhere as much as here.
///
/// # Errors
/// As the database says.
pub async fn pay(
    tx: &mut PgConnection,
    account: &Account,
    payment: &CreatePayment,
) -> Result<Payment, sqlx::Error> {
    let id = sqlx::query_scalar(
        "insert into payments (account, amount, currency) values ($1, $2, $3) returning id",
    )
    .bind(account.0)
    .bind(payment.amount)
    .bind(&payment.currency)
    .fetch_one(tx)
    .await?;
    Ok(Payment {
        id,
        account: account.0,
        amount: payment.amount,
        currency: payment.currency.clone(),
    })
}

/// A usual handler: it reads the account, writes the payment and its two entries, and moves the
/// balance; four statements.
///
/// # Errors
/// As the database says.
pub async fn transfer(
    tx: &mut PgConnection,
    account: &Account,
    payment: &CreatePayment,
) -> Result<Payment, sqlx::Error> {
    let _balance: i64 = sqlx::query_scalar("select balance from accounts where id = $1")
        .bind(account.0)
        .fetch_one(&mut *tx)
        .await?;
    let paid = pay(tx, account, payment).await?;
    sqlx::query("insert into entries (payment, account, amount) values ($1, $2, $3), ($1, 0, -$3)")
        .bind(paid.id)
        .bind(account.0)
        .bind(payment.amount)
        .execute(&mut *tx)
        .await?;
    sqlx::query("update accounts set balance = balance + $2 where id = $1")
        .bind(account.0)
        .bind(payment.amount)
        .execute(&mut *tx)
        .await?;
    Ok(paid)
}
