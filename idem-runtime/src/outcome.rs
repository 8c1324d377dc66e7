//! How work that is done once ends, and what a consumer of messages does about it.

use crate::engine::Answer;
use crate::error::{InvalidRequest, Refusal};
use crate::record::Kept;

/// The result of work that is done once.
///
/// A consumer acknowledges a delivery for both: the effect of the message is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The work ran now and its writes are committed. Acknowledge.
    Executed(T),
    /// The work ran before, for an earlier delivery; this is what it returned then. Acknowledge:
    /// the first acknowledgement was lost.
    Replayed(T),
}

impl<T> Outcome<T> {
    /// Returns the value, whenever it was made.
    pub fn into_inner(self) -> T {
        match self {
            Self::Executed(value) | Self::Replayed(value) => value,
        }
    }
}

/// Why work that is done once has no result.
///
/// A consumer of messages does one of three things with a delivery, as each variant says:
///
/// - *acknowledge* it, since its effect is committed: [`NotKept`](Self::NotKept);
/// - *leave it unacknowledged*, so that the broker delivers it again, best after a pause: whatever
///   may end otherwise next time. A delivery that finds the effect committed replays;
/// - *set it aside* (dead letter), since another delivery can only end the same way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The work itself failed; its writes are rolled back and the key is free. Leave
    /// unacknowledged, or set aside if the error says that no retry will do.
    #[error("the work failed; its writes are rolled back")]
    Work(#[source] E),
    /// The same work runs right now. Leave unacknowledged: whoever runs it may still fail.
    #[error("the same work is in progress")]
    InProgress,
    /// The key belongs to work with another fingerprint. Set aside: two messages have
    /// one key, or the type of the message has changed since it was first consumed.
    #[error("the key was used for other work")]
    Mismatch,
    /// The work is done, but its result is larger than what is stored (1 MiB as JSON).
    /// Acknowledge.
    #[error("the work is done, but its result was not kept")]
    NotKept,
    /// A leased run with the same key waits for an operator. Leave unacknowledged.
    #[error("the key needs reconciliation")]
    NeedsReconciliation,
    /// The key, the tenant, the fingerprint, or the ttl breaks its rule; the work did not run.
    /// Set aside.
    #[error(transparent)]
    InvalidRequest(InvalidRequest),
    /// The result does not serialise to JSON; the writes are rolled back. Set aside.
    #[error("the result cannot be serialised; the writes are rolled back")]
    Serialize(#[source] serde_json::Error),
    /// The stored result does not deserialise to this type. The effect is committed; set aside,
    /// or acknowledge if the result is not needed.
    #[error("the stored result cannot be deserialised")]
    Deserialize(#[source] serde_json::Error),
    /// The store did not answer; the work did not run, or its writes are rolled back. Leave
    /// unacknowledged.
    #[error("the idempotency store does not answer")]
    StoreUnavailable,
    /// The database undid the transaction; a retry may succeed. Leave unacknowledged.
    #[error("the database aborted the transaction")]
    Aborted,
    /// The connection was lost during the commit, and the outcome could not be found out. Leave
    /// unacknowledged: the next delivery finds it out, and replays if the commit went through.
    #[error("the outcome of the commit is unknown")]
    OutcomeUnknown,
    /// The work took longer than its time-out; its writes are rolled back. Leave unacknowledged.
    #[error("the work ran out of time; its writes are rolled back")]
    TimedOut,
    /// The work panicked; its writes are rolled back. Leave unacknowledged, and let the broker's
    /// limit of deliveries set it aside.
    #[error("the work panicked; its writes are rolled back")]
    Panicked,
    /// The work ended the transaction itself; its writes may stand without a record. Set aside:
    /// another delivery may repeat them.
    #[error("the work ended the transaction that held its key")]
    EndedByHandler,
    /// The handle is draining. Leave unacknowledged.
    #[error("the handle is shutting down")]
    ShuttingDown,
}

/// Reads the engine's answer: what ran just now, or what is stored.
pub(crate) fn outcome<T, E>(
    answer: Answer<Result<T, OnceError<E>>>,
) -> Result<Outcome<T>, OnceError<E>>
where
    T: serde::de::DeserializeOwned,
{
    match answer {
        Answer::Executed(result) => result.map(Outcome::Executed),
        Answer::Replayed { finished, .. } => match &finished.kept {
            Kept::Response(response) => serde_json::from_slice(&response.body)
                .map(Outcome::Replayed)
                .map_err(OnceError::Deserialize),
            Kept::Tombstone => Err(OnceError::NotKept),
        },
        Answer::Refused(refusal) => Err(match refusal {
            Refusal::InProgress => OnceError::InProgress,
            Refusal::Mismatch => OnceError::Mismatch,
            Refusal::NotKept => OnceError::NotKept,
            Refusal::NeedsReconciliation => OnceError::NeedsReconciliation,
            Refusal::ShuttingDown => OnceError::ShuttingDown,
            Refusal::StoreUnavailable => OnceError::StoreUnavailable,
            Refusal::Aborted => OnceError::Aborted,
            Refusal::OutcomeUnknown => OnceError::OutcomeUnknown,
            Refusal::TimedOut => OnceError::TimedOut,
            Refusal::Panicked => OnceError::Panicked,
            Refusal::EndedByHandler => OnceError::EndedByHandler,
        }),
    }
}
