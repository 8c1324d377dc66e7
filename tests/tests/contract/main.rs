//! What the library promises over HTTP, on every database: each test is stamped onto PostgreSQL,
//! SQLite, and SQLite in memory.

#[macro_use]
mod stamp;

mod answers;
mod automatic_rollback;
mod bad_input;
mod crafted;
mod database_failures;
mod disconnects;
mod ending;
mod fingerprint;
mod key;
mod logs;
mod metrics;
mod once;
mod operation;
mod options;
mod record;
mod replay;
mod state_machine;
mod sweep;
mod tenants;
