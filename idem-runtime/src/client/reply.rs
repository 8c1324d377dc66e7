//! The server's decision about an operation.

use http::StatusCode;

use super::attempt::Attempt;
use super::response::is_replay;
use crate::key::Key;

/// The server's decision: a response that no retry would change.
///
/// It need not be a success: a 422 is a decision too.
#[derive(Debug)]
pub struct Reply {
    response: reqwest::Response,
    key: Option<Key>,
    attempts: Vec<Attempt>,
}

impl Reply {
    pub(crate) fn new(
        response: reqwest::Response,
        key: Option<Key>,
        attempts: Vec<Attempt>,
    ) -> Self {
        Self {
            response,
            key,
            attempts,
        }
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Says whether the server had done the work before, and sent its stored response
    /// (`Idempotent-Replayed: true`).
    #[must_use]
    pub fn is_replay(&self) -> bool {
        is_replay(self.response.headers())
    }

    /// Returns the key that all attempts had.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(Key::as_str)
    }

    /// Returns the attempts, in order; at least one.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Returns the response.
    #[must_use]
    pub fn response(&self) -> &reqwest::Response {
        &self.response
    }

    /// Returns the response with its whole body.
    #[must_use]
    pub fn into_response(self) -> reqwest::Response {
        self.response
    }
}
