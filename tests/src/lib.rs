//! Fixtures of the suites under `tests/`: an application with handlers for every option, on a
//! database of its own, behind a real socket.
//!
//! The suites see the library as a user does, through HTTP, and the database as an operator does,
//! through SQL. Nothing here waits for time to pass: a test closes a [`Gate`], waits until somebody
//! stands before it, and opens it.

pub mod app;
pub mod breaker;
pub mod broker;
pub mod client;
pub mod cluster;
pub mod consumer;
pub mod counted;
pub mod database;
pub mod gate;
mod handlers;
pub mod leased;
pub mod log;
pub mod pgbouncer;
pub mod process;
pub mod proxy;
pub mod script;
pub mod wire;

pub use app::{Setting, Setup, TestApp};
pub use client::Answer;
pub use database::Kind;
pub use gate::Gate;

/// The code of the README, which must compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// A port that nobody listens on, for now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}
