//! What the expansion of `#[idempotent]` names. No part of the public interface: it changes
//! together with `idem-macros`, which is pinned to the same version.

use std::pin::Pin;

pub use crate::connection::AtomicConnection;
pub use crate::fingerprint::{Fingerprinted, JsonWriter, JsonWritten};
pub use crate::given::Options;
pub use crate::handle::Idempotency;
pub use crate::inbox::{Consumed, Consumption, MessageOptions};
pub use crate::key::KeyValue;
pub use crate::policy::{OnTakeover, Policy, check_scope};
pub use crate::record::Record;
pub use crate::store::Backend;
pub use crate::tenant::TenantId;
pub use core::time::Duration;
pub use futures_util::future::BoxFuture;

#[cfg(feature = "postgres")]
pub use sqlx::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlx::Sqlite;

#[cfg(feature = "axum")]
pub use self::handlers::*;

/// What a scope is. `str` may be a name of the user's.
pub type Text = &'static str;

/// What the runtime needs of a type parameter: it runs the handler in a task of its own.
pub trait Owned: Send + 'static {}

impl<T: ?Sized + Send + 'static> Owned for T {}

/// A time that the attribute says. By a function: rustc would offer to import a `Duration` where the crate
/// is not found.
#[must_use]
pub const fn duration(secs: u64, nanos: u32) -> Duration {
    Duration::new(secs, nanos)
}

/// Boxes the handler's future; the type of what it returns says that the future must be `Send`.
pub fn pin<'t, F: Future + 't>(future: F) -> Pin<Box<F>> {
    Box::pin(future)
}

/// What handlers need beyond that.
#[cfg(feature = "axum")]
mod handlers {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    pub use crate::http::{
        Extractor, HandleSource, Idempotent, LastExtractor, Requested, Run, run,
    };
    pub use axum::response::{IntoResponse, Response};

    /// Turns what the handler returns into a response.
    pub fn respond<'t, R: 't>(
        future: BoxFuture<'t, R>,
        into_response: fn(R) -> Response,
    ) -> BoxFuture<'t, Response> {
        future.map(into_response).boxed()
    }
}
