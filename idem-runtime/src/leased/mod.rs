//! Leased mode: for work whose effect is somewhere else, where no transaction holds both sides.
//!
//! ```text
//! tx: claim, attempt n, locked until now + lease
//! work, its steps recorded one by one, the lease renewed as long as it runs
//! tx: store, only if still attempt n
//! ```
//!
//! The attempt number is a fencing token: every statement of an owner checks it, and an owner that
//! lost its lease changes nothing.

mod attempt;
mod operate;
mod owner;
mod step;

#[cfg(feature = "axum")]
pub(crate) use attempt::{Leased, LeasedWork};
pub use operate::{KeyState, KeyStatus, SettleError, Settlement, StepStatus};
pub use step::{Lease, StepError};
