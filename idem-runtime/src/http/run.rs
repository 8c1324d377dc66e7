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
/// A router takes the function, `post(pay)`, and not what it returns, `post(pay())`.
// A trait: were the function's type one that is not there, as under a wrong `crate`, a router would
// report the function once more. It does not where a trait is not there.
#[must_use = "a handler runs when its future is awaited, as a router does"]
pub trait Run: Future<Output = Response> + Send + sealed::Sealed + 'static {}

mod sealed {
    pub trait Sealed {}
}

/// The one future of all handlers, boxed.
pub struct Running(BoxFuture<'static, Response>);

impl Running {
    pub(super) fn new(future: impl Future<Output = Response> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

/// Makes a run of what has to be awaited before it.
pub fn run(future: impl Future<Output = Response> + Send + 'static) -> Running {
    Running::new(future)
}

impl Run for Running {}

impl sealed::Sealed for Running {}

impl Future for Running {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").finish_non_exhaustive()
    }
}
