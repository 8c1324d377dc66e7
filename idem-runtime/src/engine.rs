//! The engine: one request's way to its answer, in this process and among the others.
//!
//! Written once, for every backend and for every kind of work; it knows neither SQL nor HTTP.
//! What an attempt at the key does is the mode's: [`atomic`](crate::atomic) or
//! [`leased`](crate::leased).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use crate::claim::Identity;
use crate::error::{Refusal, StoreError, StoreErrorKind};
use crate::fingerprint::Fingerprint;
use crate::handle::Idempotency;
use crate::in_flight::{Entrance, Finished, Met, Ticket};
use crate::observe;
use crate::policy::Policy;
use crate::record::{Disposition, Kept};
use crate::store::{Backend, StoredRow};

/// One request's claim.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) identity: Arc<Identity>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) policy: Policy,
}

/// What the work returns: the value for its own caller, and what becomes of it.
#[derive(Debug)]
pub(crate) struct Done<V> {
    pub(crate) value: V,
    pub(crate) disposition: Disposition,
    pub(crate) kept: Kept,
}

/// What the engine answers.
#[derive(Debug)]
pub(crate) enum Answer<V> {
    /// The work ran and what it asked for was done.
    Executed(V),
    /// An earlier run's answer; `waited` says whether it was still running when this one came.
    Replayed {
        finished: Arc<Finished>,
        waited: bool,
    },
    Refused(Refusal),
}

/// One attempt at a key, from the claim to the last statement; runs detached from its client.
pub(crate) trait Attempt<DB: Backend>: Sized + Send + 'static {
    type Value: Send + 'static;

    /// How long the work may take; `None` when a lease is renewed as long as it runs.
    fn limit(policy: &Policy) -> Option<Duration>;

    /// Claims the key and works; the ticket says how it went before it is given back.
    fn attempt(
        self,
        handle: Idempotency<DB>,
        job: Job,
        ticket: Ticket,
    ) -> impl Future<Output = Attempted<Self::Value, Self>> + Send;
}

/// How one attempt at the key ended.
pub(crate) enum Attempted<V, W> {
    Answered(Answer<V>),
    /// Another process works on the same request; the work comes back unused.
    Elsewhere(W),
}

impl<V, W> Attempted<V, W> {
    pub(crate) const fn refused(refusal: Refusal) -> Self {
        Self::Answered(Answer::Refused(refusal))
    }
}

/// How long a statement of ours or a connection may take before the store counts as down.
pub(crate) const STORE_LIMIT: Duration = Duration::from_secs(15);

/// How long an unknown outcome is looked into.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// How often another process is asked whether it is done: first, and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// The pause between two looks at an unknown outcome.
pub(crate) const SETTLE_PAUSE: Duration = Duration::from_millis(100);

impl<DB: Backend> Idempotency<DB> {
    /// Runs the work once for its key, or answers what an earlier run left.
    pub(crate) async fn execute<W: Attempt<DB>>(&self, job: Job, work: W) -> Answer<W::Value> {
        let span = observe::span(&job.identity);
        let answer = self.pursue(&job, work).instrument(span.clone()).await;
        let outcome = observe::outcome(&answer);
        span.record("outcome", outcome);
        tracing::debug!(parent: &span, outcome, "answered");
        observe::count(job.policy.scope, outcome);
        answer
    }

    async fn pursue<W: Attempt<DB>>(&self, job: &Job, mut work: W) -> Answer<W::Value> {
        let arrived = Instant::now();
        let mut patience = Patience::new(job.policy.wait);
        loop {
            // The token comes before the question: a drain that begins in between waits for us.
            let token = self.tasks().token();
            if self.tasks().is_closed() {
                return Answer::Refused(Refusal::ShuttingDown);
            }
            match self.in_flight().enter(&job.identity, job.fingerprint) {
                Entrance::Occupied(occupied) => {
                    drop(token);
                    match occupied
                        .meet(job.fingerprint, arrived, patience.deadline, STORE_LIMIT)
                        .await
                    {
                        Met::Finished(finished, ran) => {
                            return replay(finished, &job.fingerprint, patience.used || ran);
                        }
                        Met::Mismatch => return Answer::Refused(Refusal::Mismatch),
                        Met::InProgress => return Answer::Refused(Refusal::InProgress),
                        Met::Unavailable => return Answer::Refused(Refusal::StoreUnavailable),
                        Met::Elsewhere if !patience.pause().await => {
                            return Answer::Refused(Refusal::InProgress);
                        }
                        Met::Elsewhere | Met::Again => {}
                    }
                }
                Entrance::Entered(ticket, mut progress) => {
                    // In a box, since it is large, and each wrapper would copy it.
                    let attempt = work.attempt(self.clone(), job.clone(), ticket).boxed();
                    let attempt = self.clone().waking(attempt);
                    let task = self.tasks().spawn(attempt.in_current_span());
                    // The task says itself that the store is silent, unless it does not get to run.
                    if !progress.claimed_within(STORE_LIMIT + SETTLE_PAUSE).await {
                        return Answer::Refused(Refusal::StoreUnavailable);
                    }
                    let attempted = match W::limit(&job.policy) {
                        Some(limit) => timeout(limit + SETTLE_LIMIT + STORE_LIMIT, task).await,
                        None => Ok(task.await),
                    };
                    match attempted {
                        Ok(Ok(Attempted::Answered(answer))) => return answer.after(patience.used),
                        Ok(Ok(Attempted::Elsewhere(unused))) => work = unused,
                        // The runtime is going down, or the commit does not come back.
                        Ok(Err(_)) | Err(_) => {
                            return Answer::Refused(Refusal::OutcomeUnknown);
                        }
                    }
                    if !patience.pause().await {
                        return Answer::Refused(Refusal::InProgress);
                    }
                }
            }
        }
    }

    /// Runs a future up to a limit. What is not done by then goes on behind the answer, since no
    /// statement of ours is dropped half way: a connection that nobody closed may stay silent for
    /// as long as the operating system believes in it.
    pub(crate) fn within<T, F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (mut work, tasks) = (work.boxed(), self.tasks().clone());
        async move {
            let done = timeout(limit, &mut work).await.ok();
            if done.is_none() {
                tasks.spawn(work.map(drop).in_current_span());
            }
            done
        }
    }

    /// [`within`](Self::within) for what the store answers: its silence is a failure of the store.
    pub(crate) async fn in_time<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
    {
        let answer = self.within(limit, work).await;
        answer.unwrap_or_else(|| Err(silence()))
    }

    /// Runs a future to its end, whatever becomes of the caller, who waits no longer than for a
    /// store that is down.
    pub(crate) async fn detached_in_time<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
    {
        let answer = timeout(STORE_LIMIT, self.detached(work)).await;
        answer.unwrap_or_else(|_| Err(silence()))
    }

    /// [`detached_in_time`](Self::detached_in_time) for a claim. One that comes through later has no
    /// one to work for it, and is given back.
    pub(crate) async fn claimed_in_time<T, F>(
        &self,
        claim: impl Future<Output = Result<T, StoreError>> + Send + 'static,
        give_back: impl FnOnce(T) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = ()> + Send,
    {
        let (sender, mut claimed) = oneshot::channel();
        let claiming = async move {
            if let Err(Ok(late)) = sender.send(claim.await) {
                give_back(late).await;
            }
        };
        self.tasks().spawn(claiming.in_current_span());
        if let Ok(Ok(in_time)) = timeout(STORE_LIMIT, &mut claimed).await {
            return in_time;
        }
        claimed.close();
        claimed.try_recv().unwrap_or_else(|_| Err(silence()))
    }

    /// Reads what a finished row keeps, which belongs to the same request.
    pub(crate) fn finished(
        &self,
        job: &Job,
        found: StoredRow,
    ) -> Result<Arc<Finished>, StoreError> {
        let fingerprint = found.row.fingerprint;
        let kept = self.unseal(&job.identity, found.columns)?;
        Ok(Arc::new(Finished { fingerprint, kept }))
    }
}

impl<V> Answer<V> {
    /// Remembers that the request waited for another process.
    fn after(self, waiting: bool) -> Self {
        match self {
            Self::Replayed { finished, waited } => Self::Replayed {
                finished,
                waited: waited || waiting,
            },
            other => other,
        }
    }
}

/// How long a duplicate still waits for another process, and how it asks: ever less often.
struct Patience {
    deadline: Instant,
    poll: Duration,
    used: bool,
}

impl Patience {
    fn new(wait: Duration) -> Self {
        Self {
            deadline: Instant::now() + wait,
            poll: POLL.0,
            used: false,
        }
    }

    /// Pauses before the next question; false when there is no time for one.
    async fn pause(&mut self) -> bool {
        let Some(left) = left_until(self.deadline) else {
            return false;
        };
        self.used = true;
        sleep(self.poll.min(left)).await;
        self.poll = (self.poll * 2).min(POLL.1);
        true
    }
}

pub(crate) fn left_until(deadline: Instant) -> Option<Duration> {
    deadline
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
}

/// The error of a store that does not answer.
pub(crate) fn silence() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, sqlx::Error::PoolTimedOut)
}

/// Answers from what is stored, if it belongs to the same request.
pub(crate) fn replay<V>(
    finished: Arc<Finished>,
    fingerprint: &Fingerprint,
    waited: bool,
) -> Answer<V> {
    if finished.fingerprint != *fingerprint {
        return Answer::Refused(Refusal::Mismatch);
    }
    match finished.kept {
        Kept::Response(_) => Answer::Replayed { finished, waited },
        Kept::Tombstone => Answer::Refused(Refusal::NotKept),
    }
}

/// Logs an error of the store with what to do about it.
pub(crate) fn report(error: &StoreError) -> Refusal {
    let refusal = match error.kind() {
        StoreErrorKind::Aborted => Refusal::Aborted,
        StoreErrorKind::Misconfigured
        | StoreErrorKind::Unreadable
        | StoreErrorKind::Unavailable => Refusal::StoreUnavailable,
    };
    let cause = std::error::Error::source(error).map(ToString::to_string);
    if refusal == Refusal::Aborted {
        tracing::info!(cause, "{error}");
    } else {
        tracing::error!(cause, "{error}");
    }
    refusal
}
