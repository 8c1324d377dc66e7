//! Fixtures of the suites under `tests/`.

pub mod ui;
