//! The brokers that the tests use.

mod mute;
pub mod nats;
pub mod rabbitmq;

use std::env;

pub use mute::MuteLine;

/// What a consumer makes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// It can be acknowledged.
    Yes,
    /// It must be delivered again.
    No,
}

/// Returns a name that no other test uses.
#[must_use]
pub fn name() -> String {
    format!("t{}", uuid::Uuid::new_v4().simple())
}

fn address(variable: &str, server: &str) -> String {
    env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run scripts/test, which starts {server}")
    })
}
