//! Makes axum handlers safe to retry.

mod atomic;
mod builder;
mod claim;
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
pub use once::{Once, OnceError, Outcome, UnitOfWork};
pub use policy::Overrides;
pub use seal::Seal;
pub use store::Backend;
pub use sweep::Sweeper;
pub use tenant::{InvalidTenant, TenantId};

#[cfg(feature = "axum")]
pub use http::{Problem, ProblemKind, Recorded};
