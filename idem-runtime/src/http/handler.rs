//! Running a handler for its claim, and turning the engine's answer into a response.

use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Transaction;

use super::options::{Claimed, Requested};
use super::problem::{Problem, ProblemKind, Renderer};
use super::reply;
use super::run::Running;
use crate::atomic::{Atomic, Work};
use crate::claim::Claim;
use crate::connection::AtomicConnection;
use crate::engine::{Answer, Done};
use crate::error::InvalidRequest;
use crate::given::Options;
use crate::handle::Idempotency;
use crate::leased::{Lease, Leased, LeasedWork};
use crate::observe;
use crate::policy::{OnTakeover, Policy, TTL_RANGE};
use crate::record::{Kept, Record};
use crate::store::Backend;

impl<DB: Backend> Options<Requested<Idempotency<DB>>> {
    /// Runs the handler once for its key, in the transaction that also holds the key.
    ///
    /// Boxed, so that the handler's closure is no part of the caller's future: its `'static`
    /// connection type is erased there, and the future would not count as `Send`.
    pub fn run_atomic<C, F>(self, handler: F) -> Running
    where
        C: AtomicConnection<Database = DB>,
        F: for<'t> FnOnce(&'t mut C, &'t Claim) -> BoxFuture<'t, Response> + Send + 'static,
    {
        Running::new(self.atomic::<C>(Box::new(handler)))
    }

    /// Runs the handler once for its key, under a lease.
    pub fn run_leased<F>(self, handler: F) -> Running
    where
        F: for<'t> FnOnce(&'t Lease<DB>, &'t Claim) -> BoxFuture<'t, Response> + Send + 'static,
    {
        Running::new(self.leased(Box::new(handler)))
    }

    async fn atomic<C>(mut self, run: RunAtomic<C>) -> Response
    where
        C: AtomicConnection<Database = DB>,
    {
        let (handle, policy) = self.with_overrides();
        let Policy {
            scope,
            record,
            max_response,
            ..
        } = policy;
        let work = Handler {
            run,
            record,
            max_response,
        };
        let answer = match self.into_claim() {
            Ok(Claimed::WithKey(job)) => handle.execute(job, Atomic(work)).await,
            Ok(Claimed::WithoutKey(job)) => handle.execute_unclaimed(job, work).await,
            Err(invalid) => return refuse(&handle, scope, invalid),
        };
        respond(&handle, answer)
    }

    async fn leased(mut self, run: RunLeased<DB>) -> Response {
        let (handle, policy) = self.with_overrides();
        let Policy {
            scope,
            record,
            max_response,
            ..
        } = policy;
        let work = LeasedHandler {
            run,
            record,
            max_response,
        };
        let answer = match self.into_claim() {
            Ok(Claimed::WithKey(job)) => handle.execute(job, Leased(work)).await,
            // Without a key of the client's the run has one of its own, and claims that: the
            // steps are the same. Nobody can ask for them again, so nothing is kept for long.
            Ok(Claimed::WithoutKey(mut job)) => {
                job.policy.ttl = *TTL_RANGE.start();
                job.policy.on_takeover = OnTakeover::Resume;
                handle.execute(job, Leased(work)).await
            }
            Err(invalid) => return refuse(&handle, scope, invalid),
        };
        respond(&handle, answer)
    }
}

fn refuse<DB: Backend>(
    handle: &Idempotency<DB>,
    scope: &'static str,
    invalid: InvalidRequest,
) -> Response {
    observe::count(scope, "invalid_key");
    render(handle, invalid.into())
}

/// A handler as work: it runs, and its response is taken apart for the store. Its closure is
/// boxed, so that the engine is compiled once for each database and not for each handler.
struct Handler<C> {
    run: RunAtomic<C>,
    record: Record,
    max_response: usize,
}

type RunAtomic<C> = Box<dyn for<'t> FnOnce(&'t mut C, &'t Claim) -> BoxFuture<'t, Response> + Send>;

impl<C: AtomicConnection> Work<C::Database> for Handler<C> {
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
struct LeasedHandler<DB: Backend> {
    run: RunLeased<DB>,
    record: Record,
    max_response: usize,
}

type RunLeased<DB> =
    Box<dyn for<'t> FnOnce(&'t Lease<DB>, &'t Claim) -> BoxFuture<'t, Response> + Send>;

impl<DB: Backend> LeasedWork<DB> for LeasedHandler<DB> {
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
