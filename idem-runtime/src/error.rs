//! What can go wrong, sorted by what a caller can do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::key::InvalidKey;
use crate::tenant::InvalidTenant;

/// The database failed a statement of this library.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: sqlx::Error,
}

/// What an error of the database means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The tables are missing, of another shape, or not ours to use.
    Misconfigured,
    /// The database undid the transaction: a serialization failure, a deadlock, a busy
    /// database, a constraint that failed at the commit. A retry may succeed.
    Aborted,
    /// A response could not be sealed for the store, or what is stored cannot be read.
    Unreadable,
    /// The database did not answer.
    Unavailable,
}

impl StoreError {
    pub(crate) const fn new(kind: StoreErrorKind, source: sqlx::Error) -> Self {
        Self { kind, source }
    }

    /// Returns what the error means for the caller.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// What an operator should do about it.
    pub(crate) const fn advice(&self) -> &'static str {
        match self.kind {
            StoreErrorKind::Misconfigured => {
                "run `Idempotency::migrate()` at start, or the SQL of `Idempotency::migration_sql()`, and check the table names and the rights of the database user"
            }
            StoreErrorKind::Aborted => {
                "after a conflict the client may retry; a handler that goes on after a failed statement has to return its error"
            }
            StoreErrorKind::Unreadable => {
                "check the encryption hook and its keys, and whether the table was changed by hand"
            }
            StoreErrorKind::Unavailable => {
                "check that the database is up and that the pool has connections to spare"
            }
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            StoreErrorKind::Misconfigured => "the idempotency tables cannot be used",
            StoreErrorKind::Aborted => "the database aborted the transaction",
            StoreErrorKind::Unreadable => "a stored response cannot be sealed or read",
            StoreErrorKind::Unavailable => "the idempotency store does not answer",
        };
        write!(f, "{what}; {}", self.advice())
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// A handle was configured with values that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A table name is no plain identifier.
    #[error(
        "the table name `{0}` is no identifier: it needs 1 to 48 letters, digits, and `_`, and begins with no digit"
    )]
    TableName(String),
    /// Two tables share a name; databases do not tell upper case from lower.
    #[error("the table name `{0}` is given twice: keys, steps, and outbox need a table each")]
    TableNameTwice(String),
    /// Overrides were given for what is no scope.
    #[error("`{0}` is no scope: it needs 1 to 64 characters of a-z, 0-9, `.`, `_`, and `-`")]
    Scope(String),
    /// A ttl is out of range.
    #[error("the ttl of {ttl:?} for scope `{scope}` is out of range: 1 second to 400 days")]
    Ttl {
        /// The scope whose overrides hold it.
        scope: String,
        /// The ttl itself.
        ttl: Duration,
    },
    /// A lease is out of range.
    #[error(
        "the lease of {lease:?} for scope `{scope}` is out of range: 100 milliseconds to 400 days"
    )]
    Lease {
        /// The scope whose overrides hold it.
        scope: String,
        /// The lease itself.
        lease: Duration,
    },
    /// A time-out of zero would let no handler run.
    #[error("the time-out for scope `{0}` is zero; it needs to be positive")]
    Timeout(String),
}

/// A request has no usable key, tenant, fingerprint, or ttl; nothing was touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// There is no key, and the operation requires one.
    #[error("the request has no idempotency key")]
    KeyMissing,
    /// The key breaks the rules.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The tenant breaks the rules.
    #[error(transparent)]
    Tenant(#[from] InvalidTenant),
    /// The scope breaks the rules.
    #[error("the scope needs 1 to 64 characters of a-z, 0-9, `.`, `_`, and `-`")]
    Scope,
    /// The value of the fingerprint could not be serialised.
    #[error("the fingerprint could not be serialised")]
    Fingerprint(#[source] serde_json::Error),
    /// The ttl is out of range.
    #[error("the ttl of {0:?} is out of range: 1 second to 400 days")]
    Ttl(Duration),
}

/// Why the engine gives no answer of the work's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    InProgress,
    Mismatch,
    NotKept,
    NeedsReconciliation,
    ShuttingDown,
    StoreUnavailable,
    Aborted,
    OutcomeUnknown,
    TimedOut,
    Panicked,
    EndedByHandler,
}
