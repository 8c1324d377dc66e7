//! Makes axum handlers safe to retry.
