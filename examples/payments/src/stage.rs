//! What the example plays with: a bank, and two requests to try.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use tokio::time::sleep;

use crate::ApiError;

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
