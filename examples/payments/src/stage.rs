//! Beside the subject: how the API speaks of errors, a bank that plays its part, and two requests to try.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::FromRequest;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::time::sleep;

/// `Json`, but a mistake in it is a 400: 422 says that the key was used before.
#[derive(FromRequest)]
#[from_request(via(Json), rejection(ApiError))]
pub(crate) struct Body<T>(pub(crate) T);

pub(crate) struct ApiError(pub(crate) StatusCode, pub(crate) &'static str);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.1 }))).into_response()
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        let status = match rejection.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            status => status,
        };
        Self(status, "not a payment")
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        eprintln!("database: {error}");
        Self(StatusCode::INTERNAL_SERVER_ERROR, "try again")
    }
}

/// Plays the bank: the source says how the payment ends.
pub(crate) async fn authorize(source: &str) -> Result<(), ApiError> {
    match source {
        "card_ok" => Ok(()),
        "card_slow" => {
            sleep(Duration::from_millis(500)).await;
            Ok(())
        }
        "card_declined" => Err(ApiError(StatusCode::PAYMENT_REQUIRED, "declined")),
        "card_unavailable" => Err(ApiError(StatusCode::SERVICE_UNAVAILABLE, "bank is closed")),
        "card_panic" => panic!("the card broke the reader"),
        _ => Err(ApiError(StatusCode::BAD_REQUEST, "unknown source")),
    }
}

pub(crate) fn print_requests_to_try(address: SocketAddr) {
    let key = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |age| age.as_secs());
    let curl = format!(
        "curl -i http://{address}/payments -H 'idempotency-key: {key}' \
         -H 'authorization: Bearer alice-token' -H 'content-type: application/json' \
         -d '{{\"amount\": 500, \"currency\": \"usd\", \"source\": \"card_ok\"}}'"
    );
    println!("listening on http://{address}; try a payment and its retry:\n{curl}\n{curl}");
}
