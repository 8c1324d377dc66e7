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
use crate::engine::{Done, Job};
use crate::error::InvalidRequest;
use crate::fingerprint::Fingerprint;
use crate::given::Given;
use crate::handle::Idempotency;
use crate::key::{Key, KeyValue};
use crate::outcome::{OnceError, Outcome, outcome};
use crate::policy::{Policy, TTL_RANGE, bounded, is_scope};
use crate::record::{Disposition, Kept, StoredResponse};
use crate::recordable::Recordable;
use crate::store::Backend;
use crate::tenant::{InvalidTenant, Tenant, TenantId};

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

    /// Takes what an attribute's options gave.
    pub(crate) fn from_given(given: Given) -> Result<Self, InvalidRequest> {
        if let Some(invalid) = given.invalid {
            return Err(invalid);
        }
        let identity = Identity {
            tenant: given.tenant.ok_or(InvalidTenant::Empty)?,
            scope: given.policy.scope.into(),
            key: given.key.ok_or(InvalidRequest::KeyMissing)?,
        };
        Ok(Self {
            identity,
            fingerprint: given.fingerprint,
            policy: given.policy,
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

    /// Sets how long a duplicate waits for the first to finish, up to 400 days; by default not at all.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.policy.wait = bounded(wait);
        self
    }

    /// Sets how long the work may run, up to 400 days; by default 60 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = bounded(timeout);
        self
    }
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
        T: Recordable + Send + 'static,
        E: Send + 'static,
        F: AsyncFnOnce(&mut DB::Connection) -> Result<T, E>
            + for<'t> UnitOfWork<'t, DB::Connection, Result<T, E>>
            + Send
            + 'static,
    {
        let work = move |max_response| OnceWork {
            work,
            max_response,
            result: PhantomData,
        };
        self.clone().run_once(what, work).boxed()
    }

    /// Does the work for its key; `work` is made for the largest result that is kept.
    pub(crate) async fn run_once<T, E, W>(
        self,
        what: Once,
        work: impl FnOnce(usize) -> W,
    ) -> Result<Outcome<T>, OnceError<E>>
    where
        T: DeserializeOwned,
        W: Work<DB, Value = Result<T, OnceError<E>>>,
    {
        let policy = self.effective(what.policy);
        let fingerprint = match what.fingerprint {
            Some(fingerprint) => fingerprint,
            None => Fingerprint::of_value(&()).map_err(OnceError::Serialize)?,
        };
        let job = Job {
            identity: Arc::new(what.identity),
            fingerprint,
            policy,
        };
        let work = Atomic(work(policy.max_response));
        outcome(self.execute(job, work).await)
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
        async move { done((self.work)(&mut **tx).await, self.max_response) }.boxed()
    }
}

/// What becomes of what the work returned: a value is kept with the writes, an error with nothing.
pub(crate) fn done<T: Serialize, E>(
    result: Result<T, E>,
    max_response: usize,
) -> Done<Result<T, OnceError<E>>> {
    let encoded = result.map_err(OnceError::Work).and_then(|value| {
        let body = serde_json::to_vec(&value).map_err(OnceError::Serialize)?;
        Ok((value, body))
    });
    let (value, body) = match encoded {
        Ok(encoded) => encoded,
        Err(error) => {
            return Done {
                value: Err(error),
                disposition: Disposition::Release,
                kept: Kept::Tombstone,
            };
        }
    };
    let kept = if body.len() > max_response {
        Kept::Tombstone
    } else {
        // Work outside HTTP has no status; 200 stands for done.
        Kept::Response(StoredResponse {
            status: 200,
            headers: Vec::new(),
            body: Bytes::from(body),
        })
    };
    Done {
        value: Ok(value),
        disposition: Disposition::KeepWithWrites,
        kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_kept_up_to_the_limit_to_the_byte() {
        let kept = |limit| done(Ok::<_, ()>("nine more"), limit).kept;
        // With its quotation marks.
        assert!(matches!(kept(11), Kept::Response(_)));
        assert!(matches!(kept(10), Kept::Tombstone));
    }
}
