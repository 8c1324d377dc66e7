//! A response, read as far as the decision about it needs.

use std::time::SystemTime;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, response};
use reqwest::ResponseBuilderExt as _;
use serde::Deserialize;

use super::attempt::AttemptOutcome;
use super::buffer::Buffered;
use super::decision::Facts;
use super::policy::RetryPolicy;
use super::retry_after::retry_after;

/// A response and what it says about a retry.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) response: reqwest::Response,
    pub(crate) facts: Facts,
}

/// A problem is a few sentences; what is longer is none of ours.
const MAX_PROBLEM_BYTES: usize = 64 * 1024;

impl Received {
    /// Reads the body as far as the policy says.
    pub(crate) async fn read(
        response: reqwest::Response,
        policy: &RetryPolicy,
    ) -> Result<Self, reqwest::Error> {
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let essence = essence(response.headers());
        let is_problem = essence == b"application/problem+json";
        let limit = match &*essence {
            // It may never end.
            b"text/event-stream" => 0,
            _ if is_problem => policy.max_buffered.max(MAX_PROBLEM_BYTES),
            _ => policy.max_buffered,
        };

        let url = response.url().clone();
        let (mut parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        let body = Buffered::read_ahead(body, limit).await?;
        let whole = is_problem.then(|| body.whole()).flatten();
        let retryable = if is_replay(&parts.headers) {
            Some(false) // stored, so it stays what it is
        } else {
            whole.and_then(|whole| retryable(&whole))
        };
        let facts = Facts {
            outcome: AttemptOutcome::Answered(parts.status),
            retryable,
            retry_after,
        };

        // The only way to tell a new `reqwest::Response` its address.
        let carrier = response::Builder::new().url(url).body(());
        let (carrier, ()) = carrier.unwrap_or_default().into_parts();
        parts.extensions.extend(carrier.extensions);
        let response = http::Response::from_parts(parts, reqwest::Body::wrap(body)).into();
        Ok(Self { response, facts })
    }
}

/// Whether the response says that it is a stored one.
pub(super) fn is_replay(headers: &HeaderMap) -> bool {
    let value = headers.get("idempotent-replayed");
    value.is_some_and(|value| value == "true")
}

/// The `retryable` member, with which this library extends a problem.
fn retryable(problem: &[u8]) -> Option<bool> {
    #[derive(Deserialize)]
    struct Problem {
        retryable: Option<bool>,
    }
    serde_json::from_slice::<Problem>(problem).ok()?.retryable
}

/// The media type in lower case, without parameters.
fn essence(headers: &HeaderMap) -> Vec<u8> {
    let value = headers.get(CONTENT_TYPE);
    let value = value.map_or(&b""[..], |value| value.as_bytes());
    let end = value.iter().position(|&byte| byte == b';');
    value[..end.unwrap_or(value.len())]
        .trim_ascii()
        .to_ascii_lowercase()
}
