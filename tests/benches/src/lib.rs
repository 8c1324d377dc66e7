//! What idem costs: the same application behind idem, behind nothing, behind a hand-written
//! pattern, and (in the package `peers`) behind other crates.
//!
//! Figures of one machine and one moment mean nothing. Every table is made of ratios between
//! servers that took turns, and the ratio that counts is the median over the rounds.

pub mod by_hand;
pub mod cluster;
pub mod cpu;
pub mod fingerprint;
pub mod growth;
pub mod hand_written;
pub mod instructions;
pub mod load;
pub mod messages;
pub mod payments;
pub mod postgres;
pub mod report;
pub mod rounds;
pub mod serve;
pub mod sqlite;
pub mod statements;
pub mod sweep;
pub mod with_idem;

/// Whatever ends a measurement.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
