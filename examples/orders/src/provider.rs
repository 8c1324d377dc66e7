//! The payment provider, as its client sees it.

use std::time::Duration;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::api::ApiError;

#[derive(Clone)]
pub(crate) struct Provider {
    client: reqwest::Client,
    url: String,
}

/// What the provider has decided; this is recorded.
#[derive(Serialize, Deserialize)]
pub(crate) enum Charge {
    Made { id: String },
    Declined,
}

#[derive(Deserialize)]
struct Made {
    id: String,
}

impl Provider {
    pub(crate) fn new(url: String) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(10));
        Ok(Self {
            client: client.build()?,
            url,
        })
    }

    /// Charges the card once for this key. Anything but a decision is an error: the charge may
    /// have happened, and asking again with the same key tells.
    pub(crate) async fn charge(
        &self,
        key: Uuid,
        amount: i64,
        card: &str,
    ) -> Result<Charge, ApiError> {
        let request = self
            .client
            .post(format!("{}/charges", self.url))
            .header("idempotency-key", key.to_string())
            .json(&serde_json::json!({ "amount": amount, "card": card }));
        let response = request.send().await?;
        if response.status() == StatusCode::PAYMENT_REQUIRED {
            return Ok(Charge::Declined);
        }
        let Made { id } = response.error_for_status()?.json().await?;
        Ok(Charge::Made { id })
    }
}
