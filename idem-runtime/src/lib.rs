//! Makes axum handlers safe to retry.

mod fingerprint;
