//! An order: stock here, a charge there, and a confirmation here again, with a gate at each point
//! in between.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::StepError;
use serde_json::{Value, json};

use super::any::AnyLease;
use crate::gate::Gate;

/// Where a run can be stopped, in order.
pub const POINTS: [&str; 8] = [
    // The key is claimed.
    "claimed",
    // The stock is taken in a transaction that is open.
    "reserving",
    // The stock is taken.
    "reserved",
    // The charge's step has begun, and the provider was not asked.
    "charging",
    // The provider has charged, and nobody here knows.
    "charged",
    // The charge is recorded.
    "recorded",
    // The confirmation is written in a transaction that is open.
    "confirming",
    // All steps are done, and the answer is not stored.
    "confirmed",
];

/// Where an answer stands that is stored and has not left; at a [`serve`](super::serve) only.
pub const STORED: &str = "stored";

/// A gate for each point, and one for [`STORED`].
#[derive(Clone, Debug, Default)]
pub struct Gates(Arc<[Gate; POINTS.len() + 1]>);

impl Gates {
    /// Returns the gate at a point.
    ///
    /// # Panics
    /// When there is no such point.
    #[must_use]
    pub fn at(&self, point: &str) -> &Gate {
        let mut points = POINTS.iter().chain([&STORED]);
        let index = points.position(|name| *name == point);
        &self.0[index.unwrap_or_else(|| panic!("no point `{point}`"))]
    }
}

/// Who charges.
#[derive(Clone, Debug, Default)]
pub enum Provider {
    /// Nobody: every charge is made.
    #[default]
    Generous,
    /// A provider at this address.
    At(String, reqwest::Client),
}

impl Provider {
    /// A provider over HTTP.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self::At(url.to_owned(), crate::app::client())
    }

    async fn charge(&self, key: &str, card: &str) -> Result<String, Failed> {
        let Self::At(url, client) = self else {
            return Ok(format!("ch_{key}"));
        };
        let response = client
            .post(format!("{url}/charges"))
            .header("idempotency-key", key)
            .header("content-type", "application/json")
            .body(json!({ "amount": 900, "card": card }).to_string())
            .send()
            .await
            .map_err(Failed::because)?;
        let response = response.error_for_status().map_err(Failed::because)?;
        let body = response.bytes().await.map_err(Failed::because)?;
        let charge: Value = serde_json::from_slice(&body).map_err(Failed::because)?;
        Ok(charge["id"].as_str().unwrap_or_default().to_owned())
    }
}

/// What an order needs.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The gates of its points.
    pub gates: Gates,
    /// Who charges for it.
    pub provider: Provider,
    /// How long a run stays at each point, so that a fault may find it there.
    pub pause: Duration,
}

impl Order {
    /// Runs the order; the answer tells which attempt made it.
    pub async fn run(&self, lease: AnyLease<'_>, card: &str) -> Response {
        match self.steps(lease, card).await {
            Ok(order) => (StatusCode::CREATED, Json(order)).into_response(),
            Err(Failed(why)) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
        }
    }

    async fn steps(&self, lease: AnyLease<'_>, card: &str) -> Result<Value, Failed> {
        let at = |point| self.gates.at(point);
        let reach = async |point| {
            at(point).pass().await;
            // Where a fence is needed most, a fault is to come most.
            let share = if point == "confirmed" { 12 } else { 1 };
            tokio::time::sleep(self.pause * share).await;
        };
        reach("claimed").await;
        let reserved = lease.effect("reserve", at("reserving")).await?;
        reach("reserved").await;

        let key = lease.claim().derive_key("charge").to_string();
        let charge = async || {
            reach("charging").await;
            let charge = self.provider.charge(&key, card).await?;
            reach("charged").await;
            Ok::<_, Failed>(charge)
        };
        let charge: String = lease.step("charge", charge).await?;
        reach("recorded").await;

        let confirmed = lease.effect("confirm", at("confirming")).await?;
        reach("confirmed").await;
        Ok(json!({
            "attempt": lease.claim().attempt(),
            "reserved": reserved,
            "charge": charge,
            "confirmed": confirmed,
        }))
    }
}

/// Why an order failed, in words.
#[derive(Debug)]
struct Failed(String);

impl Failed {
    #[allow(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
    fn because(error: impl std::error::Error) -> Self {
        Self(error.to_string())
    }
}

impl<E: std::fmt::Debug> From<StepError<E>> for Failed {
    fn from(error: StepError<E>) -> Self {
        Self(format!("{error:?}"))
    }
}
