//! Signatures of Standard Webhooks, version 1: HMAC-SHA256 over id, time stamp, and body.
//! <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>

use std::str::FromStr;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::DecodeError;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use hmac::{Hmac, KeyInit, Mac};
use serde::de::DeserializeOwned;
use sha2::Sha256;

/// How far the sender's clock, with the way of a message, may be from ours, in seconds.
const TOLERANCE: u64 = 5 * 60;

/// What sender and receiver share.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

impl FromStr for Secret {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let base64 = text.strip_prefix("whsec_").unwrap_or(text);
        BASE64_STANDARD.decode(base64).map(Self)
    }
}

impl Secret {
    pub(crate) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let code = self.code(id, timestamp, body).finalize().into_bytes();
        format!("v1,{}", BASE64_STANDARD.encode(code))
    }

    /// The time stamp is compared first, and the signature covers it: an old message cannot be
    /// sent again by who has only seen it.
    fn verifies(&self, headers: &HeaderMap, body: &[u8]) -> Option<()> {
        let header = |name| headers.get(name)?.to_str().ok();
        let (id, timestamp) = (header("webhook-id")?, header("webhook-timestamp")?);
        if now().abs_diff(timestamp.parse().ok()?) > TOLERANCE {
            return None;
        }
        // A sender that changes its secret signs with both for a while.
        let mut signatures = header("webhook-signature")?.split(' ');
        let expected = self.code(id, timestamp, body);
        let genuine = signatures.any(|signature| {
            let code = signature.strip_prefix("v1,");
            let code = code.and_then(|base64| BASE64_STANDARD.decode(base64).ok());
            // Takes the same time wherever the first wrong byte is.
            code.is_some_and(|code| expected.clone().verify_slice(&code).is_ok())
        });
        genuine.then_some(())
    }

    fn code(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let code = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        code.chain_update(id)
            .chain_update(".")
            .chain_update(timestamp)
            .chain_update(".")
            .chain_update(body)
    }
}

/// Seconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    let age = SystemTime::UNIX_EPOCH.elapsed();
    age.map_or(0, |age| age.as_secs())
}

/// A JSON body whose signature is genuine. As an extractor it runs before a replay too.
pub(crate) struct Verified<T>(pub(crate) T);

impl<S, T> FromRequest<S> for Verified<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
    Secret: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let headers = request.headers().clone();
        let body = Bytes::from_request(request, state)
            .await
            .map_err(IntoResponse::into_response)?;
        Secret::from_ref(state)
            .verifies(&headers, &body)
            .ok_or_else(|| StatusCode::UNAUTHORIZED.into_response())?;
        let message = serde_json::from_slice(&body);
        message
            .map(Self)
            .map_err(|_| StatusCode::BAD_REQUEST.into_response())
    }
}
