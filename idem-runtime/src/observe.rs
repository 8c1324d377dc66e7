//! What operators see: one span for each claim, one counter for each outcome.
//!
//! Keys and tenants appear as the first bytes of their digest only: a key is
//! enough to ask for a replay, and a tenant may be a person.

use std::fmt;

use sha2::{Digest, Sha256};
use tracing::Span;
use tracing::field::Empty;

use crate::claim::Identity;
use crate::engine::Answer;
use crate::error::Refusal;

/// The span of one request's claim.
pub(crate) fn span(identity: &Identity) -> Span {
    tracing::info_span!(
        "idempotency",
        scope = &*identity.scope,
        tenant_hash = %ShortHash(identity.tenant.as_str()),
        key_hash = %ShortHash(identity.key.as_str()),
        attempt = Empty,
        outcome = Empty,
    )
}

/// The first bytes of a value's digest, which is computed where somebody writes it down: the
/// fields of a span are evaluated for nobody too.
struct ShortHash<'a>(&'a str);

impl fmt::Display for ShortHash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = Sha256::digest(self.0.as_bytes());
        digest[..6]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The outcome's name, in spans and metrics.
pub(crate) fn outcome<V>(answer: &Answer<V>) -> &'static str {
    match answer {
        Answer::Executed(_) => "executed",
        Answer::Replayed { waited: true, .. } => "replayed_after_wait",
        Answer::Replayed { waited: false, .. } => "replayed",
        Answer::Refused(refusal) => match refusal {
            Refusal::InProgress => "conflict",
            Refusal::Mismatch => "mismatch",
            Refusal::NotKept => "tombstoned",
            Refusal::NeedsReconciliation => "needs_reconciliation",
            Refusal::ShuttingDown => "shutting_down",
            Refusal::StoreUnavailable => "store_error",
            Refusal::Aborted => "aborted",
            Refusal::OutcomeUnknown => "outcome_unknown",
            Refusal::TimedOut => "timed_out",
            Refusal::Panicked => "handler_panic",
            Refusal::EndedByHandler => "ended_by_handler",
        },
    }
}

/// Counts an outcome of a scope.
pub(crate) fn count(scope: &'static str, outcome: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("idempotency_requests_total", "scope" => scope, "outcome" => outcome)
        .increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = (scope, outcome);
}

/// Records how long storing and committing took, and how many claims are in flight.
pub(crate) fn stored(scope: &'static str, took: std::time::Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!("idempotency_store_seconds", "scope" => scope).record(took);
    #[cfg(not(feature = "metrics"))]
    let _ = (scope, took);
}

/// Counts a claim that this process holds from now on.
pub(crate) fn entered() {
    #[cfg(feature = "metrics")]
    metrics::gauge!("idempotency_in_flight").increment(1);
}

/// Counts it off. By one, not by what is left: several handles have one gauge, and two that
/// leave at once may report in another order.
pub(crate) fn left() {
    #[cfg(feature = "metrics")]
    metrics::gauge!("idempotency_in_flight").decrement(1);
}
