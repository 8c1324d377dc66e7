//! Who asks, what a body is, and how an error looks.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::{StatusCode, header, request::Parts};
use axum::response::{IntoResponse, Response};
use idem_runtime::StepError;

/// Who asks. As an extractor it runs before a replay too.
pub(crate) struct Account {
    pub(crate) id: &'static str,
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let id = match parts.headers.get(header::AUTHORIZATION) {
            Some(token) if token == "Bearer alice-token" => "alice",
            Some(token) if token == "Bearer bob-token" => "bob",
            _ => return Err(ApiError(StatusCode::UNAUTHORIZED, "unknown token")),
        };
        Ok(Self { id })
    }
}

/// `Json`, but a mistake in it is a 400: 422 says that the key was used before.
#[derive(FromRequest)]
#[from_request(via(Json), rejection(ApiError))]
pub(crate) struct Body<T>(pub(crate) T);

#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) StatusCode, pub(crate) &'static str);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.1 }))).into_response()
    }
}

impl From<JsonRejection> for ApiError {
    fn from(_: JsonRejection) -> Self {
        Self(StatusCode::BAD_REQUEST, "not an order")
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        tracing::error!(%error, "the database failed");
        Self(StatusCode::SERVICE_UNAVAILABLE, "try again")
    }
}

impl From<reqwest::Error> for ApiError {
    fn from(error: reqwest::Error) -> Self {
        tracing::error!(%error, "the provider gave no decision");
        Self(StatusCode::SERVICE_UNAVAILABLE, "try again")
    }
}

/// A 503 keeps the steps that are done, so that the retry goes on after them.
impl From<StepError<ApiError>> for ApiError {
    fn from(error: StepError<ApiError>) -> Self {
        match error {
            StepError::Work(error) => error,
            error => {
                tracing::error!(%error, "the step has no result");
                Self(StatusCode::SERVICE_UNAVAILABLE, "try again")
            }
        }
    }
}
