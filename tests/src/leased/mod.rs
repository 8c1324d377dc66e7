//! Fixtures of leased mode: an application whose handlers a test writes as closures, and an order
//! whose run can be stopped at every point.

mod any;
mod app;
mod order;
mod psp;

pub use any::AnyLease;
pub use app::{LeasedApp, LeasedSetup, serve};
pub use order::{Gates, Order, POINTS, Provider, STORED};
pub use psp::Psp;
