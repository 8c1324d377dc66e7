//! What became of each attempt.

use std::time::Duration;

use http::StatusCode;

/// One attempt at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// How long the client waited before it; zero before the first.
    pub waited: Duration,
    /// How long it took.
    pub took: Duration,
    /// What became of it.
    pub outcome: AttemptOutcome,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// The server answered.
    Answered(StatusCode),
    /// The answer did not come in time; the server may have done the work.
    TimedOut,
    /// There was no connection, so the server saw nothing of this attempt.
    NotConnected,
    /// The connection ended before the answer was complete; the server may have done the work.
    ConnectionLost,
    /// The request could not be sent, or its redirects not be followed; another attempt would end
    /// the same way.
    Failed,
}

impl AttemptOutcome {
    pub(crate) fn of_error(error: &reqwest::Error) -> Self {
        if error.is_builder() || error.is_redirect() || error.is_upgrade() {
            Self::Failed
        } else if error.is_connect() {
            Self::NotConnected
        } else if error.is_timeout() {
            Self::TimedOut
        } else {
            Self::ConnectionLost
        }
    }
}
