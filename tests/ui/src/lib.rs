//! What the cases beside it share: a router's state, a caller, a body.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};

pub use axum::extract::{FromRef, State};
pub use axum::http::StatusCode;
pub use axum::response::{IntoResponse, Response};
pub use axum::routing::post;
pub use axum::{Json, Router};
pub use idem_runtime::{Idempotency, idempotent};
pub use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection};

/// The state of a router.
#[derive(Clone, FromRef)]
#[expect(missing_debug_implementations, reason = "no case prints it")]
pub struct App {
    /// What the handlers find in the state.
    pub idempotency: Idempotency<Postgres>,
}

/// Who calls.
#[derive(Debug)]
pub struct Account {
    /// The tenant of most cases.
    pub id: i64,
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self { id: 1 })
    }
}

/// What is sent, and what is answered.
#[derive(Debug, Serialize, Deserialize)]
pub struct Payment {
    /// In the smallest unit of the currency.
    pub amount: i64,
    /// Such as `usd`.
    pub currency: String,
}

/// What a handler can fail with.
#[derive(Debug)]
pub struct ApiError;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderPaid {
    /// The message's own.
    pub id: i64,
    /// In the smallest unit of the currency.
    pub amount: i64,
}
