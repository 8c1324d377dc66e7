//! The other side: a client that retries without doing the work twice.
//!
//! An [`Operation`] is one thing that the caller wants done once, for example one payment. Its
//! idempotency key is made before the first attempt, is the same on every attempt, and can be
//! persisted, so that the operation can be resumed after a restart. A [`RetryPolicy`] says how
//! often and how long it is tried.
//!
//! ```no_run
//! use idem_runtime::client::{Operation, RetryPolicy};
//!
//! # async fn pay(http: reqwest::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let request = http
//!     .post("https://api.example.com/payments")
//!     .header("content-type", "application/json")
//!     .body(r#"{"amount": 500, "currency": "usd"}"#);
//! let operation = Operation::new(request)?;
//! println!("pays under {:?}", operation.key()); // store it, to resume after a restart
//!
//! match operation.send(&RetryPolicy::new()).await {
//!     // The server has decided, for or against it.
//!     Ok(reply) => println!("{} after {} attempts", reply.status(), reply.attempts().len()),
//!     // Nothing is decided: send it again later, or resume it with `Operation::with_key`.
//!     Err(error) => println!("{error}; resume with {:?}", error.key()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is retried
//!
//! Requests with a key, and safe methods (GET, HEAD, OPTIONS, TRACE) also without one, after:
//!
//! | attempt | retried |
//! |---|---|
//! | no connection, connection lost, response cut off, time-out | yes |
//! | 408, 425, 429, 500, 502, 503, 504 | yes, unless the problem says `retryable: false` |
//! | 409 | if it says that it passes: with `Retry-After`, or a problem with `retryable: true` |
//! | any other status, 422 first of all | no |
//! | any status with `Idempotent-Replayed: true` | no: it is stored, and comes again as it is |
//!
//! "The problem" is a body of type `application/problem+json` (RFC 9457), as this library's server
//! side sends it. A 409 without a sign that it passes is a conflict of the application's own.
//!
//! Redirects are followed, or not, as the client says. One that follows a 301, 302, or 303 asks the
//! other address by GET, and what that answers is the reply: after a 301 or 302, as from `http` to
//! `https`, it need not tell of the work. With `reqwest::redirect::Policy::none()` the redirect itself
//! is the reply.
//!
//! # Why plain `reqwest`
//!
//! Neither `reqwest-middleware` nor a tower layer is used. A middleware first sees a request when
//! it is being sent, and answers with a response or a type-erased error: the key would exist too
//! late to be persisted, and the attempts would be hidden in extensions and downcasts. It would
//! also bring three more dependencies. An [`Operation`] takes any [`reqwest::RequestBuilder`] and
//! sends it with the client that made it, so TLS, proxies, connection pools, and tower layers on
//! the connector (`reqwest::ClientBuilder::connector_layer`) are configured where they always are.

mod attempt;
mod backoff;
mod buffer;
mod decision;
mod error;
mod operation;
mod policy;
mod reply;
mod response;
mod retry_after;
mod send;

pub use attempt::{Attempt, AttemptOutcome};
pub use error::{GaveUp, OperationError, SendError};
pub use operation::{Operation, OperationBuilder};
pub use policy::RetryPolicy;
pub use reply::Reply;
