//! The extractor that wraps a handler's last one: it remembers what the request was.

use std::error::Error;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRef, FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, RequestExt};
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, LengthLimitError, StreamBody};

use crate::handle::Idempotency;
use crate::store::Backend;

/// What [`#[idempotent]`](macro@crate::idempotent) puts around a handler's last extractor. It is
/// here to be looked up: nobody writes it, but rustc shows it where a router refuses a handler.
///
/// `Idempotent<Json<Payment>>` in a message is the handler's own `Json<Payment>`. It is an extractor
/// where `Json<Payment>` is one and the router's state holds an `Idempotency<DB>` ([`HandleSource`])
/// of the handler's database, which is the second parameter where it is not the usual one. When neither seems to be amiss, put
/// `#[axum::debug_handler(state = App)]` *below* `#[idempotent]`: rustc then says what is.
// It implements `FromRequest` or `FromRequestParts` as `T` does, so that handlers without a body
// work too.
#[derive(Debug)]
pub struct Idempotent<T, DB: HandleOf = Usual> {
    value: T,
    pub(super) received: Received,
    pub(super) handle: DB::Handle,
}

/// The database that goes without saying: rustc leaves out what a parameter is by default, and its
/// message about a handler stays as short as the one about a plain function.
#[cfg(feature = "postgres")]
type Usual = sqlx::Postgres;
#[cfg(all(feature = "sqlite", not(feature = "postgres")))]
type Usual = sqlx::Sqlite;
#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
type Usual = ();

/// The request as the HTTP layer received it.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) method: Method,
    /// Path and query before nested routers strip their prefixes.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    /// `None` for a handler that takes no body, and so cannot depend on it.
    pub(super) body: Option<Bytes>,
}

impl<T, DB: HandleOf> Idempotent<T, DB> {
    /// Takes the handler's own argument out.
    #[doc(hidden)]
    pub fn split(self) -> (Idempotent<(), DB>, T) {
        (
            Idempotent {
                value: (),
                received: self.received,
                handle: self.handle,
            },
            self.value,
        )
    }
}

impl Received {
    fn new(parts: &Parts) -> Self {
        let uri = match parts.extensions.get::<OriginalUri>() {
            Some(OriginalUri(uri)) => uri,
            None => &parts.uri,
        };
        Self {
            method: parts.method.clone(),
            target: uri
                .path_and_query()
                .map_or("/", |target| target.as_str())
                .to_owned(),
            headers: parts.headers.clone(),
            body: None,
        }
    }
}

/// Which handle a handler needs: that of its database, or none from the state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database that holds idempotency keys",
    label = "expected `sqlx::Postgres` or `sqlx::Sqlite`",
    note = "the features `postgres` and `sqlite` of `idem-runtime` turn them on"
)]
pub trait HandleOf {
    /// The handle, or `()` when the `store` option says where it is.
    type Handle: Send;
}

#[diagnostic::do_not_recommend]
impl<DB: Backend> HandleOf for DB {
    type Handle = Idempotency<DB>;
}

#[diagnostic::do_not_recommend]
impl HandleOf for () {
    type Handle = ();
}

/// Where a handler's handle comes from: the router's state, or, as `()`, the `store` option.
///
/// The state holds an `Idempotency<DB>` when that is `FromRef` of the state: `#[derive(FromRef)]`
/// does it for a field. An `Arc` of such a state holds it too.
#[diagnostic::on_unimplemented(
    message = "the router state `{S}` holds no `{Self}`",
    label = "this state has no idempotency handle for the handler's database",
    note = "add the field `idempotency: {Self}` to it, and `#[derive(Clone, axum::extract::FromRef)]` above it",
    note = "where the state cannot derive `FromRef`, say in the attribute where the handle is: `store = state.idempotency`"
)]
pub trait HandleSource<S>: Sized {
    /// Takes the handle out of the state.
    #[doc(hidden)]
    fn from_state(state: &S) -> Self;
}

#[diagnostic::do_not_recommend]
impl<S, DB> HandleSource<S> for Idempotency<DB>
where
    DB: Backend,
    Self: FromRef<S>,
{
    fn from_state(state: &S) -> Self {
        Self::from_ref(state)
    }
}

#[diagnostic::do_not_recommend]
impl<S> HandleSource<S> for () {
    fn from_state(_: &S) -> Self {}
}

/// A state is often shared by an `Arc`, for which nobody else could implement this.
#[diagnostic::do_not_recommend]
impl<S, DB> FromRef<Arc<S>> for Idempotency<DB>
where
    DB: Backend,
    Self: FromRef<S>,
{
    fn from_ref(state: &Arc<S>) -> Self {
        Self::from_ref(&**state)
    }
}

#[diagnostic::do_not_recommend]
impl<S, T, DB> FromRequestParts<S> for Idempotent<T, DB>
where
    S: Send + Sync,
    T: FromRequestParts<S>,
    DB: HandleOf<Handle: HandleSource<S>>,
{
    type Rejection = T::Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let received = Received::new(parts);
        let value = T::from_request_parts(parts, state).await?;
        Ok(Self {
            value,
            received,
            handle: DB::Handle::from_state(state),
        })
    }
}

#[diagnostic::do_not_recommend]
impl<S, T, DB> FromRequest<S> for Idempotent<T, DB>
where
    S: Send + Sync,
    T: FromRequest<S>,
    DB: HandleOf<Handle: HandleSource<S>>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.with_limited_body().into_parts();
        let mut received = Received::new(&parts);
        let (body, failed) = match body.collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                received.body = Some(body.clone());
                (Body::from(body), None)
            }
            // The extractor meets the same error and refuses in its own words.
            Err(error) => {
                let status = status_of(&error);
                (failing(error), Some(status))
            }
        };
        let value = T::from_request(Request::from_parts(parts, body), state)
            .await
            .map_err(IntoResponse::into_response)?;
        if let Some(status) = failed {
            // It took no notice, or is a `Result`; but a request that nobody has seen whole has no
            // fingerprint.
            return Err(status.into_response());
        }
        Ok(Self {
            value,
            received,
            handle: DB::Handle::from_state(state),
        })
    }
}

/// What an argument that is not the last has to be, where `#[debug_handler]` names the router's state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor of a router with the state `{S}`",
    note = "an argument before the last implements `axum::extract::FromRequestParts`; what reads the body comes last"
)]
pub trait Extractor<S> {
    /// Named, and never called.
    fn is_extractor() {}
}

// `Send` is asked for where the handler is called.
impl<S, T: FromRequestParts<S>> Extractor<S> for T {}

/// The same of the last argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor of a router with the state `{S}`",
    note = "the last argument implements `axum::extract::FromRequestParts` or `FromRequest`; JSON is read by `Json<…>` of what is `serde::Deserialize`"
)]
pub trait LastExtractor<S, M> {
    /// Named, and never called.
    fn is_extractor() {}
}

impl<S, M, T: FromRequest<S, M>> LastExtractor<S, M> for T {}

/// What axum's own extractors answer to a body that fails.
fn status_of(error: &axum::Error) -> StatusCode {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return StatusCode::PAYLOAD_TOO_LARGE;
        }
        cause = error.source();
    }
    StatusCode::BAD_REQUEST
}

/// A body that fails with an error that was met before. axum looks two layers deep for the limit
/// that it answers with 413; `Body::from_stream` would add a third, and a layer that limits bodies
/// has added one.
fn failing(error: axum::Error) -> Body {
    let mut error = error.into_inner();
    let innermost = loop {
        error = match error.downcast::<axum::Error>() {
            Ok(wrapped) => wrapped.into_inner(),
            Err(innermost) => break innermost,
        };
    };
    let error: Result<Frame<Bytes>, BoxError> = Err(innermost);
    Body::new(StreamBody::new(stream::iter([error])))
}
