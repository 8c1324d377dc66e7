//! Fixtures of the suites under `tests/`.
