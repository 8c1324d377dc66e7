//! From a request and the attribute's options to a claim, and from the engine's answer to a
//! response.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use sqlx::Transaction;
use uuid::Uuid;

use super::call::{Call, HandleOf, Received};
use super::problem::{Problem, ProblemKind, Renderer};
use super::reply;
use crate::atomic::{Atomic, Work};
use crate::claim::{Claim, Identity};
use crate::engine::{Answer, Done, Job};
use crate::error::InvalidRequest;
use crate::fingerprint::{Fingerprint, FingerprintedRequest};
use crate::handle::Idempotency;
use crate::key::{InvalidKey, Key, KeyValue};
use crate::leased::{Lease, Leased, LeasedWork};
use crate::observe;
use crate::policy::{KeySource, Policy, TTL_RANGE};
use crate::record::{Kept, Record};
use crate::store::Backend;
use crate::tenant::{InvalidTenant, Tenant, TenantId};

/// The type behind a handler's `&mut` parameter: it runs in the transaction that holds the key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no database connection that can hold the idempotency key",
    label = "expected `PgConnection`, `SqliteConnection`, or a `Transaction` of their databases",
    note = "the features `postgres` and `sqlite` of `idem-runtime` turn them on"
)]
pub trait AtomicConnection: Send + 'static {
    /// The database it belongs to.
    type Database: Backend;

    /// Lends the handler its view of the transaction.
    fn of<'t>(tx: &'t mut Transaction<'static, Self::Database>) -> &'t mut Self;
}

#[cfg(feature = "postgres")]
impl AtomicConnection for sqlx::PgConnection {
    type Database = sqlx::Postgres;

    fn of<'t>(tx: &'t mut Transaction<'static, sqlx::Postgres>) -> &'t mut Self {
        tx
    }
}

#[cfg(feature = "sqlite")]
impl AtomicConnection for sqlx::SqliteConnection {
    type Database = sqlx::Sqlite;

    fn of<'t>(tx: &'t mut Transaction<'static, sqlx::Sqlite>) -> &'t mut Self {
        tx
    }
}

impl<DB: Backend> AtomicConnection for Transaction<'static, DB> {
    type Database = DB;

    fn of<'t>(tx: &'t mut Transaction<'static, DB>) -> &'t mut Self {
        tx
    }
}

/// The values of an attribute's options for one request.
#[derive(Debug)]
#[must_use]
pub struct Options<H> {
    received: Received,
    handle: H,
    policy: Policy,
    tenant: Option<Tenant>,
    key: Option<Key>,
    fingerprint: Option<Fingerprint>,
    /// The first option whose value cannot be used.
    invalid: Option<InvalidRequest>,
}

impl<C: HandleOf> Call<(), C> {
    /// Begins to collect the options.
    pub fn options(self, policy: &Policy) -> Options<C::Handle> {
        Options {
            received: self.received,
            handle: self.handle,
            policy: *policy,
            tenant: None,
            key: None,
            fingerprint: None,
            invalid: None,
        }
    }
}

impl<H> Options<H> {
    /// Takes the tenant's identifier.
    pub fn tenant<T: TenantId + ?Sized>(mut self, tenant: &T) -> Self {
        match Tenant::new(tenant) {
            Ok(tenant) => self.tenant = Some(tenant),
            Err(why) => self.refuse(why.into()),
        }
        self
    }

    /// Says that all callers share their keys.
    pub fn shared_tenant(mut self) -> Self {
        self.tenant = Some(Tenant::shared());
        self
    }

    /// Takes the key from a value.
    pub fn key<K: KeyValue + ?Sized>(mut self, key: &K) -> Self {
        match Key::new(&key.key_value()) {
            Ok(key) => self.key = Some(key),
            Err(why) => self.refuse(why.into()),
        }
        self
    }

    /// Takes a value in the place of the whole request.
    pub fn fingerprint<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        match Fingerprint::of_value(value) {
            Ok(fingerprint) => self.fingerprint = Some(fingerprint),
            Err(error) => self.refuse(InvalidRequest::Fingerprint(error)),
        }
        self
    }

    /// Takes a ttl that is no constant.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        if TTL_RANGE.contains(&ttl) {
            self.policy.ttl = ttl;
        } else {
            self.refuse(InvalidRequest::Ttl(ttl));
        }
        self
    }

    fn refuse(&mut self, why: InvalidRequest) {
        self.invalid.get_or_insert(why);
    }
}

impl Options<()> {
    /// Takes the handle from where the `store` option says.
    pub fn store<C: AtomicConnection>(
        self,
        handle: &Idempotency<C::Database>,
    ) -> Options<Idempotency<C::Database>> {
        self.with_handle(handle)
    }

    /// Takes the handle of a leased handler from where the `store` option says.
    pub fn leased_store<DB: Backend>(self, handle: &Idempotency<DB>) -> Options<Idempotency<DB>> {
        self.with_handle(handle)
    }

    fn with_handle<DB: Backend>(self, handle: &Idempotency<DB>) -> Options<Idempotency<DB>> {
        let Self {
            received,
            handle: (),
            policy,
            tenant,
            key,
            fingerprint,
            invalid,
        } = self;
        let handle = handle.clone();
        Options {
            received,
            handle,
            policy,
            tenant,
            key,
            fingerprint,
            invalid,
        }
    }
}

impl<DB: Backend> Options<Idempotency<DB>> {
    /// Runs the handler once for its key, in the transaction that also holds the key.
    ///
    /// Boxed, so that the handler's closure is no part of the caller's future: its `'static`
    /// connection type is erased there, and the future would not count as `Send`.
    pub fn run_atomic<C, F>(mut self, handler: F) -> BoxFuture<'static, Response>
    where
        C: AtomicConnection<Database = DB>,
        F: for<'t> FnOnce(&'t mut C, &'t Claim) -> BoxFuture<'t, Response> + Send + 'static,
    {
        let handle = self.handle.clone();
        self.policy = handle.effective(self.policy);
        let Policy {
            scope,
            record,
            max_response,
            ..
        } = self.policy;
        let connection = PhantomData::<fn() -> C>;
        let work = Handler {
            run: handler,
            connection,
            record,
            max_response,
        };
        async move {
            let answer = match self.into_claim() {
                Ok(Claimed::WithKey(job)) => handle.execute(job, Atomic(work)).await,
                Ok(Claimed::WithoutKey(job)) => handle.execute_unclaimed(job, work).await,
                Err(invalid) => {
                    observe::count(scope, "invalid_key");
                    return render(&handle, invalid.into());
                }
            };
            respond(&handle, answer)
        }
        .boxed()
    }

    /// Runs the handler once for its key, under a lease.
    pub fn run_leased<F>(mut self, handler: F) -> BoxFuture<'static, Response>
    where
        F: for<'t> FnOnce(&'t Lease<DB>, &'t Claim) -> BoxFuture<'t, Response> + Send + 'static,
    {
        let handle = self.handle.clone();
        self.policy = handle.effective(self.policy);
        let Policy {
            scope,
            record,
            max_response,
            ..
        } = self.policy;
        let work = LeasedHandler {
            run: handler,
            record,
            max_response,
        };
        async move {
            let answer = match self.into_claim() {
                // Without a key of the client's the run has one of its own, and claims that: the
                // steps are the same, and nobody can ask for them again.
                Ok(Claimed::WithKey(job) | Claimed::WithoutKey(job)) => {
                    handle.execute(job, Leased(work)).await
                }
                Err(invalid) => {
                    observe::count(scope, "invalid_key");
                    return render(&handle, invalid.into());
                }
            };
            respond(&handle, answer)
        }
        .boxed()
    }

    /// Settles key, tenant, and fingerprint, in this order.
    fn into_claim(self) -> Result<Claimed, InvalidRequest> {
        let Self {
            received,
            policy,
            tenant,
            key,
            fingerprint,
            invalid,
            ..
        } = self;
        let key = match policy.key {
            // A safe method has no effect to protect (RFC 9110 section 9.2.1).
            _ if is_safe(&received.method) => None,
            KeySource::Header(name) => key_in_header(&received.headers, name)?,
            KeySource::Arguments => key,
        };
        if let Some(invalid) = invalid {
            return Err(invalid);
        }
        let scope = Cow::Borrowed(policy.scope);
        let tenant = tenant.ok_or(InvalidTenant::Empty)?;
        let Some(key) = key else {
            if policy.required && !is_safe(&received.method) {
                return Err(InvalidRequest::KeyMissing);
            }
            let key = Key::new(&Uuid::new_v4().to_string())?;
            let identity = Arc::new(Identity { tenant, scope, key });
            let fingerprint = Fingerprint::from_bytes([0; 32]);
            return Ok(Claimed::WithoutKey(Job {
                identity,
                fingerprint,
                policy,
            }));
        };
        let fingerprint = match fingerprint {
            Some(fingerprint) => fingerprint,
            None => of_request(&received),
        };
        let identity = Arc::new(Identity { tenant, scope, key });
        Ok(Claimed::WithKey(Job {
            identity,
            fingerprint,
            policy,
        }))
    }
}

enum Claimed {
    WithKey(Job),
    WithoutKey(Job),
}

fn is_safe(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
    )
}

fn key_in_header(headers: &HeaderMap, name: &str) -> Result<Option<Key>, InvalidKey> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(InvalidKey::Several);
    }
    Key::from_field_value(value.as_bytes()).map(Some)
}

fn of_request(received: &Received) -> Fingerprint {
    Fingerprint::of_request(&FingerprintedRequest {
        method: received.method.as_str(),
        target: &received.target,
        content_type: received
            .headers
            .get(header::CONTENT_TYPE)
            .map(HeaderValue::as_bytes),
        body: received.body.as_ref(),
    })
}

/// A handler as work: it runs, and its response is taken apart for the store.
struct Handler<F, C> {
    run: F,
    connection: PhantomData<fn() -> C>,
    record: Record,
    max_response: usize,
}

impl<F, C> Work<C::Database> for Handler<F, C>
where
    C: AtomicConnection,
    F: for<'t> FnOnce(&'t mut C, &'t Claim) -> BoxFuture<'t, Response> + Send + 'static,
{
    type Value = Response;

    fn run<'t>(
        self,
        tx: &'t mut Transaction<'static, C::Database>,
        claim: &'t Claim,
    ) -> BoxFuture<'t, Done<Response>> {
        async move {
            let response = (self.run)(C::of(tx), claim).await;
            reply::done(response, self.record, self.max_response).await
        }
        .boxed()
    }
}

/// A leased handler as work.
struct LeasedHandler<F> {
    run: F,
    record: Record,
    max_response: usize,
}

impl<DB, F> LeasedWork<DB> for LeasedHandler<F>
where
    DB: Backend,
    F: for<'t> FnOnce(&'t Lease<DB>, &'t Claim) -> BoxFuture<'t, Response> + Send + 'static,
{
    type Value = Response;

    fn run(self, lease: &Lease<DB>) -> BoxFuture<'_, Done<Response>> {
        async move {
            let response = (self.run)(lease, lease).await;
            reply::done(response, self.record, self.max_response).await
        }
        .boxed()
    }
}

fn respond<DB: Backend>(handle: &Idempotency<DB>, answer: Answer<Response>) -> Response {
    match answer {
        Answer::Executed(response) => response,
        Answer::Replayed { finished, .. } => match &finished.kept {
            Kept::Response(stored) => reply::replay(stored).unwrap_or_else(|| {
                tracing::error!(
                    "a stored response is no HTTP response; was the table changed by hand?"
                );
                render(handle, Problem::new(ProblemKind::ResponseNotKept))
            }),
            Kept::Tombstone => render(handle, Problem::new(ProblemKind::ResponseNotKept)),
        },
        Answer::Refused(refusal) => render(handle, refusal.into()),
    }
}

fn render<DB: Backend>(handle: &Idempotency<DB>, problem: Problem) -> Response {
    Renderer::render(handle.settings().renderer.as_ref(), problem)
}
