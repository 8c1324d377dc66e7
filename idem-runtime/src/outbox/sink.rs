//! Where a relay takes messages.

use std::error::Error;
use std::sync::Arc;

use super::Envelope;

/// Takes messages out of the system that wrote them: a broker, an endpoint, a function.
///
/// A sink may get a message more than once, with the same id: after a crash between publishing
/// and marking, and when a confirmation was lost.
pub trait Sink: Send + Sync + 'static {
    /// Publishes a message, and returns once it is *confirmed*: `Ok` is the end of the message in
    /// the outbox. The relay drops the future after its time-out, which counts as a failure: what comes
    /// before the message, such as a connection, is better given up earlier, as `Unavailable`.
    ///
    /// # Errors
    /// [`SinkError`]; which of its kinds decides what becomes of the message.
    fn publish(&self, envelope: &Envelope) -> impl Future<Output = Result<(), SinkError>> + Send;
}

impl<S: Sink> Sink for Arc<S> {
    fn publish(&self, envelope: &Envelope) -> impl Future<Output = Result<(), SinkError>> + Send {
        S::publish(self, envelope)
    }
}

/// Why a message was not confirmed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// This message failed. It is tried again after a pause that doubles with each failure, and
    /// is a dead letter after the relay's largest number of attempts.
    #[error("the message was not taken")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The sink takes no message at all now, as when a broker is down. The attempt does not count,
    /// and the relay pauses as a whole.
    #[error("the sink does not answer")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The sink will never take this message. It is a dead letter at once.
    #[error("the message was refused for good")]
    Refused(#[source] Box<dyn Error + Send + Sync>),
}

impl SinkError {
    /// Makes a [`Failed`](Self::Failed).
    pub fn failed(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(why.into())
    }

    /// Makes an [`Unavailable`](Self::Unavailable).
    pub fn unavailable(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(why.into())
    }

    /// Makes a [`Refused`](Self::Refused).
    pub fn refused(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(why.into())
    }
}
