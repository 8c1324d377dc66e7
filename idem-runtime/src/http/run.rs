//! What an annotated handler returns.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;
use futures_util::future::BoxFuture;

/// A handler's run, as the future of its response: what a function under
/// [`#[idempotent]`](macro@crate::idempotent) returns.
///
/// It is here to be looked up: rustc shows it where a router refuses a handler, in the place of the
/// `impl Future<Output = …>` of a plain `async fn`. What the handler itself returns is checked by itself.
#[must_use = "a handler runs when its future is awaited, as a router does"]
pub struct Run(BoxFuture<'static, Response>);

impl Run {
    /// Boxes the future.
    #[doc(hidden)]
    pub fn new(future: impl Future<Output = Response> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl Future for Run {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Run").finish_non_exhaustive()
    }
}
