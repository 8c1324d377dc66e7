//! Makes axum handlers safe to retry: [`idempotent`] claims an idempotency key by a unique
//! constraint before any work, runs the handler, stores its response in the same transaction as the
//! effect, and replays it on a retry.
//!
//! - [`idempotent`]: the attribute, with all its options
//! - [`Idempotency`]: the handle that goes into the router's state; [`Builder`] for its settings
//! - [`Claim`], [`Lease`]: what a handler may ask for beside its extractors
//! - [`Recorded`]: a handler's own word on what is kept
//! - [`Idempotency::once`]: the same for work outside HTTP
//! - [`outbox`]: messages that leave with the writes they tell of
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
//! | `nats`, `rabbitmq`, `webhooks` | | sinks of the [`outbox`]: NATS JetStream, RabbitMQ, signed posts |
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

// Without a database nothing runs.
#![cfg_attr(not(any(feature = "postgres", feature = "sqlite")), allow(dead_code))]

mod atomic;
mod builder;
mod claim;
#[cfg(feature = "client")]
pub mod client;
mod connection;
mod engine;
mod error;
#[cfg_attr(
    not(feature = "axum"),
    allow(dead_code, reason = "only handlers of requests use all of it")
)]
mod fingerprint;
#[cfg(any(test, idem_fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg_attr(
    not(feature = "axum"),
    allow(dead_code, reason = "only handlers of requests use all of it")
)]
mod given;
mod handle;
mod in_flight;
mod inbox;
#[cfg_attr(
    not(feature = "axum"),
    allow(dead_code, reason = "only handlers of requests use all of it")
)]
mod key;
#[cfg_attr(
    not(feature = "axum"),
    allow(dead_code, reason = "only handlers of requests use all of it")
)]
mod leased;
mod observe;
mod once;
pub mod outbox;
mod outcome;
#[cfg_attr(
    not(feature = "axum"),
    allow(dead_code, reason = "only handlers of requests use all of it")
)]
mod policy;
mod recent;
#[cfg_attr(
    not(feature = "axum"),
    allow(dead_code, reason = "only handlers of requests use all of it")
)]
mod record;
mod recordable;
mod seal;
#[cfg(idem_seeded_bugs)]
mod seeded;
#[cfg_attr(
    not(all(feature = "axum", feature = "postgres")),
    allow(
        dead_code,
        reason = "each database uses a part, and leases are for handlers of requests"
    )
)]
mod store;
mod sweep;
mod tenant;
#[cfg_attr(
    not(feature = "axum"),
    allow(dead_code, reason = "only handlers of requests use all of it")
)]
mod unclaimed;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
#[cfg(feature = "axum")]
mod http;

// The attribute's reference, whose examples need a backend.
#[cfg(feature = "macros")]
#[cfg_attr(all(feature = "axum", feature = "postgres"), doc = include_str!("idempotent.md"))]
pub use idem_macros::idempotent;

pub use builder::{Builder, StoreKeys};
pub use claim::Claim;
pub use error::{ConfigError, InvalidRequest, StoreError, StoreErrorKind};
pub use handle::Idempotency;
pub use key::{InvalidKey, KeyValue};
pub use leased::{KeyState, KeyStatus, Lease, SettleError, Settlement, StepError, StepStatus};
pub use once::{Once, UnitOfWork};
pub use outcome::{OnceError, Outcome};
pub use policy::Overrides;
pub use seal::Seal;
pub use store::Backend;
pub use sweep::Sweeper;
pub use tenant::{InvalidTenant, TenantId};

// Named by the expansion or by bounds only, but rustc may show them: not as `__private`.
#[doc(hidden)]
pub use connection::AtomicConnection;
#[doc(hidden)]
pub use fingerprint::Fingerprinted;
#[doc(hidden)]
#[cfg(feature = "axum")]
pub use http::{Extractor, HandleOf, LastExtractor};
#[doc(hidden)]
pub use inbox::Consumption;
#[doc(hidden)]
pub use recordable::Recordable;

#[cfg(feature = "axum")]
pub use http::{HandleSource, Idempotent, Problem, ProblemKind, Recorded, Run};
