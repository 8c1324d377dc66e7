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
    use axum::extract::{FromRequest, FromRequestParts};
    use axum::response::IntoResponse;
    use futures_util::future::BoxFuture;

    pub use crate::http::{Call, HandleOf, HandleSource, Options};
    pub use crate::leased::Lease;
    pub use axum::response::Response;

    /// Boxes the handler's future, and turns what it returns into a response.
    pub fn respond<'t, R, F>(future: F) -> BoxFuture<'t, Response>
    where
        R: IntoResponse,
        F: Future<Output = R> + Send + 't,
    {
        Box::pin(async move { future.await.into_response() })
    }

    /// Stands for an argument that is not the last, where `#[debug_handler]` names the router's state.
    pub fn extractor<T, S>()
    where
        T: FromRequestParts<S> + Send,
    {
    }

    /// Stands for the last argument.
    pub fn last_extractor<T, S, M>()
    where
        T: FromRequest<S, M> + Send,
    {
    }

    /// Stands for the handle.
    pub fn state<S, C>()
    where
        C: HandleOf<Handle: HandleSource<S>>,
    {
    }
}
