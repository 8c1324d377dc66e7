//! Operations that cannot begin, and operations that were given up.

use std::error::Error;
use std::fmt;

use super::attempt::{Attempt, AttemptOutcome};
use crate::key::{InvalidKey, Key};

/// A request cannot be an operation; nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The request itself could not be built.
    #[error("the request cannot be built")]
    Request(#[source] reqwest::Error),
    /// The request's idempotency key breaks the rules, or it has two.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The request's body is a stream, which can be sent only once.
    #[error("the request's body is a stream and cannot be sent again; read it into memory first")]
    BodyNotReplayable,
}

/// Why an operation was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GaveUp {
    /// The attempts are used up.
    Attempts,
    /// The time is used up, or too short for the next wait.
    Time,
    /// The request is not safe and has no key: another attempt could do the work twice.
    NoKey,
    /// Another attempt would end the same way.
    Permanent,
}

/// An operation was given up before the server had decided.
///
/// The work may or may not have been done. To find out, send the operation again, or resume it
/// with [`Operation::with_key`](super::Operation::with_key) and the same [`key`](Self::key), also
/// after a restart.
pub struct SendError(Box<Inner>);

struct Inner {
    reason: GaveUp,
    key: Option<Key>,
    attempts: Vec<Attempt>,
    last: Last,
}

/// What the last attempt left behind.
#[derive(Debug)]
pub(crate) enum Last {
    Response(reqwest::Response),
    Error(reqwest::Error),
    Nothing,
}

impl SendError {
    pub(crate) fn new(
        reason: GaveUp,
        key: Option<Key>,
        attempts: Vec<Attempt>,
        last: Last,
    ) -> Self {
        Self(Box::new(Inner {
            reason,
            key,
            attempts,
            last,
        }))
    }

    /// Returns why there was no further attempt.
    #[must_use]
    pub fn reason(&self) -> GaveUp {
        self.0.reason
    }

    /// Returns the key under which the operation can be resumed.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_ref().map(Key::as_str)
    }

    /// Returns the attempts, in order; at least one.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// Returns the response of the last attempt, if it got one.
    #[must_use]
    pub fn response(&self) -> Option<&reqwest::Response> {
        match &self.0.last {
            Last::Response(response) => Some(response),
            Last::Error(_) | Last::Nothing => None,
        }
    }

    /// Returns the response of the last attempt with its whole body, if it got one.
    #[must_use]
    pub fn into_response(self) -> Option<reqwest::Response> {
        match self.0.last {
            Last::Response(response) => Some(response),
            Last::Error(_) | Last::Nothing => None,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason() {
            GaveUp::Attempts => "the attempts are used up",
            GaveUp::Time => "the time is used up",
            GaveUp::NoKey => "a request that is not safe and has no key is not repeated",
            GaveUp::Permanent => "another attempt would end the same way",
        };
        let attempts = self.attempts();
        let count = attempts.len();
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "gave up after {count} attempt{plural}: {why}; the last ")?;
        match attempts.last().map(|attempt| attempt.outcome) {
            Some(AttemptOutcome::Answered(status)) => write!(f, "was answered with {status}"),
            Some(AttemptOutcome::TimedOut) => f.write_str("was not answered in time"),
            Some(AttemptOutcome::NotConnected) => f.write_str("got no connection"),
            Some(AttemptOutcome::ConnectionLost) => f.write_str("lost its connection"),
            Some(AttemptOutcome::Failed) | None => f.write_str("could not be sent"),
        }
    }
}

/// Does not show the key: whoever knows it can ask for a replay.
impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError")
            .field("reason", &self.0.reason)
            .field("key", &self.0.key)
            .field("attempts", &self.0.attempts)
            .field("last", &self.0.last)
            .finish()
    }
}

impl Error for SendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.last {
            Last::Error(error) => Some(error),
            Last::Response(_) | Last::Nothing => None,
        }
    }
}
