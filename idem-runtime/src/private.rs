//! What the expansion of `#[idempotent]` names. No part of the public interface: it changes
//! together with `idem-macros`, which is pinned to the same version.

use crate::handle::Idempotency;

pub use crate::connection::AtomicConnection;
pub use crate::inbox::{Consumed, Consumption, MessageOptions};
pub use crate::policy::{OnTakeover, Policy, check_scope};
pub use crate::record::Record;
pub use core::time::Duration;
pub use futures_util::future::BoxFuture;

#[cfg(feature = "axum")]
pub use self::handlers::*;

/// The handle for the database of a handler's connection.
pub type Handle<C> = Idempotency<<C as AtomicConnection>::Database>;

/// Boxes the handler's future.
pub fn pin<'t, F>(future: F) -> BoxFuture<'t, F::Output>
where
    F: Future + Send + 't,
{
    Box::pin(future)
}

/// What handlers need beyond that.
#[cfg(feature = "axum")]
mod handlers {
    use axum::response::IntoResponse;

    use crate::handle::Idempotency;

    pub use crate::http::{Call, HandleSource, Options};
    pub use crate::leased::Lease;
    pub use axum::response::Response;

    /// The handle of a leased handler.
    pub type LeasedHandle<DB> = Idempotency<DB>;

    /// Turns what the handler returns into a response.
    pub fn respond<R: IntoResponse>(value: R) -> Response {
        value.into_response()
    }
}
