//! One leased attempt at a key: claim or take over, run, store.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::owner::{Fenced, Owner};
use super::step::Lease;
use crate::claim::{Claim, Decision, decide};
use crate::engine::{Answer, Attempt, Attempted, Done, Job, STORE_LIMIT, replay, report};
use crate::error::{Refusal, StoreError};
use crate::handle::Idempotency;
use crate::in_flight::{Finished, Over, Ticket};
use crate::observe;
use crate::policy::{OnTakeover, Policy};
use crate::record::{Disposition, Kept};
use crate::store::lease::{self, Fence, StepRow, Terms, Token};
use crate::store::{Backend, KeyColumns, StoredRow, store_error};

/// The work of a leased claim.
pub(crate) trait LeasedWork<DB: Backend>: Send + 'static {
    type Value: Send + 'static;

    fn run(self, lease: &Lease<DB>) -> BoxFuture<'_, Done<Self::Value>>;
}

/// Work in leased mode.
pub(crate) struct Leased<W>(pub(crate) W);

enum Claimed<DB: Backend> {
    Ours(Arc<Owner<DB>>, Vec<StepRow>),
    Elsewhere,
    Known(Arc<Finished>),
    Refused(Refusal),
}

/// How often a claim is tried again when the row changed between looking and claiming.
const CLAIM_TRIES: u32 = 3;

impl<DB: Backend, W: LeasedWork<DB>> Attempt<DB> for Leased<W> {
    type Value = W::Value;

    fn limit(_: &Policy) -> Option<Duration> {
        None
    }

    async fn attempt(
        self,
        handle: Idempotency<DB>,
        job: Job,
        ticket: Ticket,
    ) -> Attempted<W::Value, Self> {
        let (owner, steps) = match handle.claim_in_time(&job).await {
            Ok(Claimed::Ours(owner, steps)) => (owner, steps),
            Ok(Claimed::Elsewhere) => {
                ticket.over(Over::Elsewhere);
                return Attempted::Elsewhere(self);
            }
            Ok(Claimed::Known(finished)) => {
                ticket.over(Over::Finished(Arc::clone(&finished)));
                return Attempted::Answered(replay(finished, &job.fingerprint, false));
            }
            Ok(Claimed::Refused(refusal)) => return Attempted::refused(refusal),
            Err(error) => {
                ticket.over(Over::Unavailable);
                return Attempted::refused(report(&error));
            }
        };
        if !ticket.starts() {
            // The client was told that the store is down, so the work must not run.
            owner.give_back().await;
            return Attempted::refused(Refusal::StoreUnavailable);
        }
        let attempt = u32::try_from(owner.fence.token.attempt).unwrap_or(u32::MAX);
        tracing::Span::current().record("attempt", attempt);
        let claim = Claim::new(Arc::clone(&job.identity), attempt);
        let heartbeat = owner.keep_alive();
        let lease = Lease::new(Arc::clone(&owner), claim, steps);
        let mut ticket = Some(ticket);
        let done = run(self.0, &lease, &mut ticket).await;
        drop(heartbeat);

        let started = Instant::now();
        let (answer, kept) = owner.close(&job, done).await;
        if let (Some(ticket), Some(kept)) = (ticket, kept) {
            let fingerprint = job.fingerprint;
            ticket.over(Over::Finished(Arc::new(Finished { fingerprint, kept })));
        }
        observe::stored(job.policy.scope, started.elapsed());
        Attempted::Answered(answer)
    }
}

/// Runs the work and catches its panic. When the lease is lost the key leaves this process's
/// hands at once, so that a retry may take it over here too, and the work goes on to its end.
async fn run<DB: Backend, W: LeasedWork<DB>>(
    work: W,
    lease: &Lease<DB>,
    ticket: &mut Option<Ticket>,
) -> Option<Done<W::Value>> {
    let lost: CancellationToken = lease.lost().clone();
    let work = AssertUnwindSafe(async move { work.run(lease).await }).catch_unwind();
    let mut work = pin!(work);
    let done = match select(&mut work, pin!(lost.cancelled())).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => {
            drop(ticket.take());
            work.await
        }
    };
    if done.is_err() {
        tracing::error!("the handler panicked; its finished steps stay, and a retry resumes");
    }
    done.ok()
}

impl<DB: Backend> Idempotency<DB> {
    /// Claims the key, unless the store stays silent for too long.
    async fn claim_in_time(&self, job: &Job) -> Result<Claimed<DB>, StoreError> {
        let (handle, job) = (self.clone(), job.clone());
        let claim = async move { handle.claim_leased(&job).await };
        let give_back = async |late| {
            if let Claimed::Ours(owner, _) = late {
                owner.give_back().await;
            }
        };
        self.claimed_in_time(claim, give_back).await
    }

    /// Claims the key in a committed row, or takes it over.
    async fn claim_leased(&self, job: &Job) -> Result<Claimed<DB>, StoreError> {
        let key = self.columns(&job.identity);
        for _ in 0..CLAIM_TRIES {
            // A replay only reads: it must not wait for a writer, nor lock the row.
            let found = self.read(&key).await?;
            let now = found.as_ref().map_or(0, |found| found.now);
            match (
                decide(
                    found.as_ref().map(|found| &found.row),
                    &job.fingerprint,
                    now,
                ),
                found,
            ) {
                (Decision::Run | Decision::TakeOver, _) => {
                    if let Some(claimed) = self.take(job, &key).await? {
                        return Ok(claimed);
                    }
                }
                (Decision::Replay | Decision::NotKept, Some(found)) => {
                    return Ok(Claimed::Known(self.finished(job, found)?));
                }
                (Decision::Mismatch, _) => return Ok(Claimed::Refused(Refusal::Mismatch)),
                (Decision::NeedsReconciliation, _) => {
                    return Ok(Claimed::Refused(Refusal::NeedsReconciliation));
                }
                (Decision::InProgress | Decision::Replay | Decision::NotKept, _) => {
                    return Ok(Claimed::Elsewhere);
                }
            }
        }
        Ok(Claimed::Elsewhere)
    }

    /// The claim's transaction; `None` when another was quicker.
    async fn take(&self, job: &Job, key: &KeyColumns) -> Result<Option<Claimed<DB>>, StoreError> {
        let terms = Terms {
            lease: job.policy.lease,
            ttl: job.policy.ttl,
        };
        let sql = &self.statements().lease;
        let mut writing = self.begin(terms.limits()).await?;
        let claimed = lease::claim(&mut writing.tx, sql, key, &job.fingerprint, terms)
            .await
            .map_err(store_error::<DB>)?;
        let Some(token) = claimed else {
            writing.give_back().await;
            return Ok(None);
        };
        let fence = Fence {
            key: key.clone(),
            token,
        };
        let steps = if token.attempt == 1 {
            lease::clear_steps(&mut writing.tx, sql, key)
                .await
                .map(|()| Vec::new())
        } else {
            lease::steps::<DB>(&mut writing.tx, sql, key).await
        }
        .map_err(store_error::<DB>)?;
        let open = steps.iter().find(|step| step.result.is_none());
        let parks = open.filter(|_| job.policy.on_takeover == OnTakeover::Reconcile);
        if let Some(step) = parks {
            lease::park(&mut writing.tx, sql, &fence, terms.ttl)
                .await
                .map_err(store_error::<DB>)?;
            tracing::error!(
                step = step.name,
                "a step was begun and not finished when its owner died; \
                 the key is parked until `Idempotency::complete` or `release` settles it"
            );
        }
        let refused = parks.is_some();
        if let Err(error) = writing.commit().await {
            self.recognise(key, token, error).await?;
        }
        if refused {
            return Ok(Some(Claimed::Refused(Refusal::NeedsReconciliation)));
        }
        let owner = Owner {
            handle: self.clone(),
            identity: Arc::clone(&job.identity),
            fence,
            terms,
            on_takeover: job.policy.on_takeover,
            begun: AtomicU32::new(0),
            lost: CancellationToken::new(),
        };
        Ok(Some(Claimed::Ours(Arc::new(owner), steps)))
    }

    /// Looks whether a claim whose commit got no answer is in place: it knows its own row.
    async fn recognise(
        &self,
        key: &KeyColumns,
        token: Token,
        error: StoreError,
    ) -> Result<(), StoreError> {
        match self.read(key).await? {
            Some(row) if row.token == token => Ok(()),
            _ => Err(error),
        }
    }
}

impl<DB: Backend> Owner<DB> {
    /// Gives a claim back for which nobody works.
    async fn give_back(self: Arc<Self>) {
        let releasing = Arc::clone(&self).release();
        if let Err(error) = self.in_time(releasing).await {
            report(&error);
        }
    }

    async fn in_time<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.handle.in_time(STORE_LIMIT, operation).await
    }

    /// Stores or releases, and answers; with what is kept, if this attempt stored it.
    async fn close<V>(
        self: &Arc<Self>,
        job: &Job,
        done: Option<Done<V>>,
    ) -> (Answer<V>, Option<Kept>) {
        match done {
            Some(Done {
                value,
                disposition,
                kept,
            }) if disposition != Disposition::Release => {
                // Also where a run has gone past a step that it could not read, and not parked its key.
                if self.lost.is_cancelled() {
                    return (self.foreign(job, self.look().await), None);
                }
                self.store(job, value, kept).await
            }
            done => match self.in_time(Arc::clone(self).release()).await {
                Err(error) if self.lost.is_cancelled() => (unknown(&error), None),
                Ok(Fenced::Done) | Err(_) => (released(done), None),
                Ok(Fenced::LeaseLost | Fenced::Ended) => {
                    (self.foreign(job, self.look().await), None)
                }
            },
        }
    }

    /// Stores the outcome, and goes on trying while the database does not answer: the effect is
    /// there, and a retry must find its answer.
    async fn store<V>(
        self: &Arc<Self>,
        job: &Job,
        value: V,
        kept: Kept,
    ) -> (Answer<V>, Option<Kept>) {
        let columns = match self.handle.seal(&job.identity, &kept) {
            Ok(columns) => Arc::new(columns),
            Err(error) => return (unknown(&error), None),
        };
        let stored = self
            .insist(|owner| owner.finish(Arc::clone(&columns)))
            .await;
        match stored {
            Ok(Fenced::Done) => (Answer::Executed(value), Some(kept)),
            Ok(Fenced::LeaseLost | Fenced::Ended) => match self.look().await {
                // An earlier commit of ours that got no answer.
                Ok(Some(row)) if self.wrote(&row) => (Answer::Executed(value), Some(kept)),
                found => (self.foreign(job, found), None),
            },
            Err(error) => (unknown(&error), None),
        }
    }

    async fn look(self: &Arc<Self>) -> Result<Option<StoredRow>, StoreError> {
        self.in_time(Arc::clone(self).read()).await
    }

    /// Answers for an owner that lost its lease: what the key holds by now, never its own answer.
    fn foreign<V>(&self, job: &Job, found: Result<Option<StoredRow>, StoreError>) -> Answer<V> {
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Answer::Refused(Refusal::InProgress),
            Err(error) => return unknown(&error),
        };
        match decide(Some(&found.row), &job.fingerprint, found.now) {
            Decision::Replay | Decision::NotKept => match self.handle.finished(job, found) {
                Ok(finished) => replay(finished, &job.fingerprint, true),
                Err(error) => unknown(&error),
            },
            Decision::NeedsReconciliation => Answer::Refused(Refusal::NeedsReconciliation),
            Decision::Mismatch => Answer::Refused(Refusal::Mismatch),
            Decision::Run | Decision::TakeOver | Decision::InProgress => {
                Answer::Refused(Refusal::InProgress)
            }
        }
    }
}

/// Answers a run that is over: what it did may stand, so no failure of the store says that nothing does.
fn unknown<V>(error: &StoreError) -> Answer<V> {
    report(error);
    Answer::Refused(Refusal::OutcomeUnknown)
}

fn released<V>(done: Option<Done<V>>) -> Answer<V> {
    match done {
        Some(done) => Answer::Executed(done.value),
        None => Answer::Refused(Refusal::Panicked),
    }
}
