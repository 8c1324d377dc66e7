//! Any unit of work, once for its key: a job, a gRPC method, a GraphQL mutation.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Database, Transaction};

use crate::atomic::{Atomic, Work};
use crate::claim::{Claim, Identity};
use crate::engine::{Answer, Done, Job};
use crate::error::{InvalidRequest, Refusal};
use crate::fingerprint::Fingerprint;
use crate::handle::Idempotency;
use crate::key::{Key, KeyValue};
use crate::policy::{Policy, TTL_RANGE, is_scope};
use crate::record::{Disposition, Kept, StoredResponse};
use crate::store::Backend;
use crate::tenant::{Tenant, TenantId};

/// What to do once: the scope, the tenant, and the key that identify it, and how.
#[derive(Clone, Debug)]
#[must_use]
pub struct Once {
    identity: Identity,
    fingerprint: Option<Fingerprint>,
    policy: Policy,
}

impl Once {
    /// Identifies a unit of work. The scope names the operation and never changes.
    ///
    /// # Errors
    /// [`InvalidRequest`] when one of the three breaks its rule.
    pub fn new(
        scope: &'static str,
        tenant: &(impl TenantId + ?Sized),
        key: &(impl KeyValue + ?Sized),
    ) -> Result<Self, InvalidRequest> {
        if !is_scope(scope) {
            return Err(InvalidRequest::Scope);
        }
        let identity = Identity {
            tenant: Tenant::new(tenant)?,
            scope: scope.into(),
            key: Key::new(&key.key_value())?,
        };
        Ok(Self {
            identity,
            fingerprint: None,
            policy: Policy::new(scope),
        })
    }

    /// Says what must be equal for a repeat to be the same work; by default the key alone decides.
    ///
    /// # Errors
    /// [`InvalidRequest::Fingerprint`] when the value cannot be serialised.
    pub fn fingerprint(
        mut self,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Self, InvalidRequest> {
        let fingerprint = Fingerprint::of_value(value).map_err(InvalidRequest::Fingerprint)?;
        self.fingerprint = Some(fingerprint);
        Ok(self)
    }

    /// Sets how long the result is kept: 1 second to 400 days, by default 24 hours.
    ///
    /// # Errors
    /// [`InvalidRequest::Ttl`] when it is out of range.
    pub fn ttl(mut self, ttl: Duration) -> Result<Self, InvalidRequest> {
        if !TTL_RANGE.contains(&ttl) {
            return Err(InvalidRequest::Ttl(ttl));
        }
        self.policy.ttl = ttl;
        Ok(self)
    }

    /// Sets how long a duplicate waits for the first to finish; by default not at all.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.policy.wait = wait;
        self
    }

    /// Sets how long the work may run; by default 60 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = timeout;
        self
    }
}

/// The result of work that is done once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The work ran now and its writes are committed.
    Executed(T),
    /// The work ran before; this is what it returned then.
    Replayed(T),
}

impl<T> Outcome<T> {
    /// Returns the value, whenever it was made.
    pub fn into_inner(self) -> T {
        match self {
            Self::Executed(value) | Self::Replayed(value) => value,
        }
    }
}

/// Why work that is done once has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The work itself failed; its writes are rolled back and the key is free.
    #[error("the work failed; its writes are rolled back")]
    Work(#[source] E),
    /// The same work runs right now.
    #[error("the same work is in progress")]
    InProgress,
    /// The key belongs to work with another fingerprint.
    #[error("the key was used for other work")]
    Mismatch,
    /// The work is done, but its result is larger than what is stored (1 MiB as JSON).
    #[error("the work is done, but its result was not kept")]
    NotKept,
    /// A leased run with the same key waits for an operator.
    #[error("the key needs reconciliation")]
    NeedsReconciliation,
    /// The result does not serialise to JSON; the writes are rolled back.
    #[error("the result cannot be serialised; the writes are rolled back")]
    Serialize(#[source] serde_json::Error),
    /// The stored result does not deserialise to this type.
    #[error("the stored result cannot be deserialised")]
    Deserialize(#[source] serde_json::Error),
    /// The store did not answer; the work did not run, or its writes are rolled back.
    #[error("the idempotency store does not answer")]
    StoreUnavailable,
    /// The database undid the transaction; a retry may succeed.
    #[error("the database aborted the transaction")]
    Aborted,
    /// The connection was lost during the commit, and the outcome could not be found out; a
    /// retry finds it out.
    #[error("the outcome of the commit is unknown")]
    OutcomeUnknown,
    /// The work took longer than its time-out; its writes are rolled back.
    #[error("the work ran out of time; its writes are rolled back")]
    TimedOut,
    /// The work panicked; its writes are rolled back.
    #[error("the work panicked; its writes are rolled back")]
    Panicked,
    /// The work ended the transaction itself; its writes may stand without a record.
    #[error("the work ended the transaction that held its key")]
    EndedByHandler,
    /// The handle is draining.
    #[error("the handle is shutting down")]
    ShuttingDown,
}

/// An async function over a connection whose future can move between threads. Every
/// `async |tx: &mut PgConnection| …` is one whose captures can.
pub trait UnitOfWork<'t, C: 't, R>: FnOnce(&'t mut C) -> Self::Future {
    /// The future it returns.
    type Future: Future<Output = R> + Send + 't;
}

impl<'t, C: 't, R, F, Fut> UnitOfWork<'t, C, R> for F
where
    F: FnOnce(&'t mut C) -> Fut,
    Fut: Future<Output = R> + Send + 't,
{
    type Future = Fut;
}

impl<DB: Backend> Idempotency<DB> {
    /// Does a unit of work once for its key, in the transaction that also holds the key.
    ///
    /// A duplicate gets what the first one returned. When the work returns an error, nothing is
    /// kept and a retry runs again.
    ///
    /// # Errors
    /// [`OnceError`]; [`OnceError::Work`] is the work's own.
    ///
    /// # Cancel safety
    /// The work goes on when this future is dropped, and a retry finds its result.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use idem_runtime::{Idempotency, Once, Outcome};
    /// # use sqlx::{Sqlite, SqliteConnection};
    /// # async fn example(idempotency: Idempotency<Sqlite>, job_id: String) -> Result<(), Box<dyn std::error::Error>> {
    /// let nightly = Once::new("reports.nightly", "reports", &job_id)?;
    /// let outcome = idempotency
    ///     .once(nightly, async move |tx: &mut SqliteConnection| {
    ///         sqlx::query("insert into reports default values").execute(tx).await?;
    ///         Ok::<_, sqlx::Error>("done".to_owned())
    ///     })
    ///     .await?;
    /// if let Outcome::Replayed(result) = outcome {
    ///     println!("already {result}");
    /// }
    /// # Ok(()) }
    /// # }
    /// ```
    pub fn once<T, E, F>(
        &self,
        what: Once,
        work: F,
    ) -> BoxFuture<'static, Result<Outcome<T>, OnceError<E>>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
        F: AsyncFnOnce(&mut DB::Connection) -> Result<T, E>
            + for<'t> UnitOfWork<'t, DB::Connection, Result<T, E>>
            + Send
            + 'static,
    {
        let handle = self.clone();
        async move {
            let policy = handle.effective(what.policy);
            let fingerprint = match what.fingerprint {
                Some(fingerprint) => fingerprint,
                None => Fingerprint::of_value(&()).map_err(OnceError::Serialize)?,
            };
            let job = Job {
                identity: Arc::new(what.identity),
                fingerprint,
                policy,
            };
            let work = Atomic(OnceWork {
                work,
                max_response: policy.max_response,
                result: PhantomData,
            });
            match handle.execute(job, work).await {
                Answer::Executed(result) => result.map(Outcome::Executed),
                Answer::Replayed { finished, .. } => match &finished.kept {
                    Kept::Response(response) => serde_json::from_slice(&response.body)
                        .map(Outcome::Replayed)
                        .map_err(OnceError::Deserialize),
                    Kept::Tombstone => Err(OnceError::NotKept),
                },
                Answer::Refused(refusal) => Err(match refusal {
                    Refusal::InProgress => OnceError::InProgress,
                    Refusal::Mismatch => OnceError::Mismatch,
                    Refusal::NotKept => OnceError::NotKept,
                    Refusal::NeedsReconciliation => OnceError::NeedsReconciliation,
                    Refusal::ShuttingDown => OnceError::ShuttingDown,
                    Refusal::StoreUnavailable => OnceError::StoreUnavailable,
                    Refusal::Aborted => OnceError::Aborted,
                    Refusal::OutcomeUnknown => OnceError::OutcomeUnknown,
                    Refusal::TimedOut => OnceError::TimedOut,
                    Refusal::Panicked => OnceError::Panicked,
                    Refusal::EndedByHandler => OnceError::EndedByHandler,
                }),
            }
        }
        .boxed()
    }
}

struct OnceWork<F, T, E> {
    work: F,
    max_response: usize,
    result: PhantomData<fn() -> Result<T, E>>,
}

impl<DB, T, E, F> Work<DB> for OnceWork<F, T, E>
where
    DB: Backend + Database,
    T: Serialize + Send + 'static,
    E: Send + 'static,
    F: for<'t> UnitOfWork<'t, DB::Connection, Result<T, E>> + Send + 'static,
{
    type Value = Result<T, OnceError<E>>;

    fn run<'t>(
        self,
        tx: &'t mut Transaction<'static, DB>,
        _claim: &'t Claim,
    ) -> BoxFuture<'t, Done<Self::Value>> {
        async move {
            let released = |error| Done {
                value: Err(error),
                disposition: Disposition::Release,
                kept: Kept::Tombstone,
            };
            let value = match (self.work)(&mut **tx).await {
                Ok(value) => value,
                Err(error) => return released(OnceError::Work(error)),
            };
            let body = match serde_json::to_vec(&value) {
                Ok(body) => body,
                Err(error) => return released(OnceError::Serialize(error)),
            };
            let kept = if body.len() > self.max_response {
                Kept::Tombstone
            } else {
                // Work outside HTTP has no status; 200 stands for done.
                let (status, headers) = (200, Vec::new());
                Kept::Response(StoredResponse {
                    status,
                    headers,
                    body: Bytes::from(body),
                })
            };
            Done {
                value: Ok(value),
                disposition: Disposition::KeepWithWrites,
                kept,
            }
        }
        .boxed()
    }
}
