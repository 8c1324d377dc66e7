//! The extractor that wraps a handler's last one: it remembers what the request was.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRef, FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, RequestExt};
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::connection::AtomicConnection;
use crate::handle::Idempotency;
use crate::leased::Lease;
use crate::store::Backend;

/// What [`#[idempotent]`](macro@crate::idempotent) puts around a handler's last extractor. It is
/// here to be looked up: nobody writes it, but rustc shows it where a router refuses a handler.
///
/// `Idempotent<Json<Payment>, PgConnection>` in a message is the handler's own `Json<Payment>`, in a
/// handler with `tx: &mut PgConnection`. It is an extractor where `Json<Payment>` is one and the
/// router's state holds an `Idempotency<Postgres>` ([`HandleSource`]). When neither seems to be
/// amiss, put `#[axum::debug_handler(state = App)]` *below* `#[idempotent]`: rustc then says what is.
// It implements `FromRequest` or `FromRequestParts` as `T` does, so that handlers without a body
// work too. `C` is what the handler's reference parameter points to.
#[derive(Debug)]
pub struct Idempotent<T, C: HandleOf> {
    value: T,
    pub(super) received: Received,
    pub(super) handle: C::Handle,
}

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

impl<T, C: HandleOf> Idempotent<T, C> {
    /// Takes the handler's own argument out.
    #[doc(hidden)]
    pub fn split(self) -> (Idempotent<(), C>, T) {
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

/// Which handle a handler needs: that of its connection, of its lease, or none from the state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no database connection that can hold the idempotency key",
    label = "expected `PgConnection`, `SqliteConnection`, or a `Transaction` of their databases",
    note = "the features `postgres` and `sqlite` of `idem-runtime` turn them on"
)]
pub trait HandleOf {
    /// The handle, or `()` when the `store` option says where it is.
    type Handle: Send;
}

#[diagnostic::do_not_recommend]
impl<C: AtomicConnection> HandleOf for C {
    type Handle = Idempotency<C::Database>;
}

#[diagnostic::do_not_recommend]
impl<DB: Backend> HandleOf for Lease<DB> {
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
impl<S, DB> FromRef<Arc<S>> for Idempotency<DB>
where
    DB: Backend,
    Self: FromRef<S>,
{
    fn from_ref(state: &Arc<S>) -> Self {
        Self::from_ref(&**state)
    }
}

impl<S, T, C> FromRequestParts<S> for Idempotent<T, C>
where
    S: Send + Sync,
    T: FromRequestParts<S>,
    C: HandleOf<Handle: HandleSource<S>>,
{
    type Rejection = T::Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let received = Received::new(parts);
        let value = T::from_request_parts(parts, state).await?;
        Ok(Self {
            value,
            received,
            handle: C::Handle::from_state(state),
        })
    }
}

impl<S, T, C> FromRequest<S> for Idempotent<T, C>
where
    S: Send + Sync,
    T: FromRequest<S>,
    C: HandleOf<Handle: HandleSource<S>>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.with_limited_body().into_parts();
        let mut received = Received::new(&parts);
        let (body, failed) = match body.collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                received.body = Some(body.clone());
                (Body::from(body), false)
            }
            // The extractor meets the same error and refuses in its own words.
            Err(error) => (failing(error), true),
        };
        let value = T::from_request(Request::from_parts(parts, body), state)
            .await
            .map_err(IntoResponse::into_response)?;
        if failed {
            // It took no notice, but a request that nobody has seen whole has no fingerprint.
            return Err(StatusCode::BAD_REQUEST.into_response());
        }
        Ok(Self {
            value,
            received,
            handle: C::Handle::from_state(state),
        })
    }
}

/// Stands for an argument that is not the last, where `#[debug_handler]` names the router's state.
pub fn extractor<T: FromRequestParts<S> + Send, S>() {}

/// Stands for the last argument.
pub fn last_extractor<T: FromRequest<S, M> + Send, S, M>() {}

/// Stands for the handle.
pub fn state_with_handle<S, C: HandleOf<Handle: HandleSource<S>>>() {}

/// A body that fails with an error that was met before. axum looks two layers deep for the limit
/// that it answers with 413; `Body::from_stream` would add a third.
fn failing(error: axum::Error) -> Body {
    let error: Result<Frame<Bytes>, BoxError> = Err(error.into_inner());
    Body::new(StreamBody::new(stream::iter([error])))
}
