//! Makes axum handlers safe to retry: [`idempotent`] claims an idempotency key by a unique
//! constraint before any work, runs the handler, stores its response in the same transaction as the
//! effect, and replays it on a retry.
//!
//! - [`idempotent`]: the attribute, with all its options
//! - [`Idempotency`]: the handle that goes into the router's state; [`Builder`] for its settings
//! - [`Claim`], [`Lease`]: what a handler may ask for beside its extractors
//! - [`Recorded`]: a handler's own word on what is kept
//! - [`Idempotency::once`]: the same for work outside HTTP
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `postgres` | | PostgreSQL, through sqlx |
//! | `sqlite` | | SQLite, through sqlx |
//! | `axum` | yes | the HTTP side of the attribute |
//! | `macros` | yes | the attribute |
//! | `client` | | [`client`]: the side that retries, on reqwest |
//! | `metrics` | | counters, a histogram, and a gauge through the `metrics` facade |
//!
//! # Metrics
//!
//! `idempotency_requests_total` counts by `scope` and `outcome` (`executed`, `replayed`,
//! `replayed_after_wait`, `conflict`, `mismatch`, `invalid_key`, `tombstoned`, `store_error`,
//! `handler_panic`, `ended_by_handler`, and others that refuse); `idempotency_store_seconds` is how
//! long storing and committing took; `idempotency_in_flight` is how many claims this process holds.
//!
//! # Logs
//!
//! Each claim has a span `idempotency` with `scope`, `tenant_hash`, `key_hash`, `attempt`, and
//! `outcome`. Keys, tenants, bodies, and header values are in no span and no event.

mod atomic;
mod builder;
mod claim;
#[cfg(feature = "client")]
pub mod client;
mod engine;
mod error;
mod fingerprint;
mod handle;
mod in_flight;
mod key;
mod leased;
mod observe;
mod once;
mod policy;
mod record;
mod seal;
mod store;
mod sweep;
mod tenant;
mod unclaimed;

#[cfg(feature = "axum")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
#[cfg(feature = "axum")]
mod http;

#[cfg(feature = "macros")]
pub use idem_macros::idempotent;

pub use builder::{Builder, StoreKeys};
pub use claim::Claim;
pub use error::{ConfigError, InvalidRequest, StoreError, StoreErrorKind};
pub use handle::Idempotency;
pub use key::{InvalidKey, KeyValue};
pub use leased::{KeyState, KeyStatus, Lease, SettleError, Settlement, StepError, StepStatus};
pub use once::{Once, OnceError, Outcome, UnitOfWork};
pub use policy::Overrides;
pub use seal::Seal;
pub use store::Backend;
pub use sweep::Sweeper;
pub use tenant::{InvalidTenant, TenantId};

#[cfg(feature = "axum")]
pub use http::{Problem, ProblemKind, Recorded};
