//! The engine: claim, run, store, commit, answer, in one task that no client can stop half way.
//!
//! Written once, for every backend and for every kind of work; it knows neither SQL nor HTTP.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Transaction;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use crate::claim::{Claim, Decision, Identity, decide};
use crate::error::{Refusal, StoreError, StoreErrorKind};
use crate::fingerprint::Fingerprint;
use crate::handle::Idempotency;
use crate::in_flight::{Entrance, Finished, Met, Over, Ticket};
use crate::observe;
use crate::policy::Policy;
use crate::record::{Disposition, Kept};
use crate::store::{
    AtSavepoint, Backend, Completion, Gate, Limits, Stored, StoredRow, store_error,
};

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

/// The work of a claim, inside its transaction.
pub(crate) trait Work<DB: Backend>: Send + 'static {
    type Value: Send + 'static;

    fn run<'t>(
        self,
        tx: &'t mut Transaction<'static, DB>,
        claim: &'t Claim,
    ) -> BoxFuture<'t, Done<Self::Value>>;
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

/// How one attempt at the key ended.
enum Attempt<V, W> {
    Answered(Answer<V>),
    /// Another process has the key; the work comes back unused.
    Elsewhere(Gate, W),
}

/// How long a statement of ours or a connection may take before the store counts as down.
const STORE_LIMIT: Duration = Duration::from_secs(15);

/// How long an unknown outcome is looked into.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// How long a rollback may hold up an answer; later it goes on behind it.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(1);

/// How often another process is asked whether it is done: first, and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

impl<DB: Backend> Idempotency<DB> {
    /// Runs the work once for its key, or answers what an earlier run left.
    pub(crate) async fn execute<W: Work<DB>>(&self, job: Job, work: W) -> Answer<W::Value> {
        let span = observe::span(&job.identity);
        let answer = self.pursue(&job, work).instrument(span.clone()).await;
        let outcome = observe::outcome(&answer);
        span.record("outcome", outcome);
        observe::count(job.policy.scope, outcome);
        answer
    }

    async fn pursue<W: Work<DB>>(&self, job: &Job, mut work: W) -> Answer<W::Value> {
        let deadline = Instant::now() + job.policy.wait;
        let mut waited = false;
        let mut poll = POLL.0;
        loop {
            // The token comes before the question: a drain that begins in between waits for us.
            let token = self.tasks().token();
            if self.tasks().is_closed() {
                return Answer::Refused(Refusal::ShuttingDown);
            }
            match self.in_flight().enter(&job.identity, job.fingerprint) {
                Entrance::Occupied(occupied) => {
                    drop(token);
                    match occupied.meet(job.fingerprint, deadline, STORE_LIMIT).await {
                        Met::Finished(finished, ran) => {
                            return replay(finished, &job.fingerprint, waited || ran);
                        }
                        Met::Mismatch => return Answer::Refused(Refusal::Mismatch),
                        Met::InProgress => return Answer::Refused(Refusal::InProgress),
                        Met::Unavailable => return Answer::Refused(Refusal::StoreUnavailable),
                        Met::Again => {}
                    }
                }
                Entrance::Entered(ticket, mut progress) => {
                    observe::in_flight(self.in_flight().len());
                    let attempt = self.clone().attempt(job.clone(), ticket, work);
                    let task = self.tasks().spawn(attempt.in_current_span());
                    if !progress.claimed_within(STORE_LIMIT).await {
                        return Answer::Refused(Refusal::StoreUnavailable);
                    }
                    let limit = job.policy.timeout + SETTLE_LIMIT + STORE_LIMIT;
                    match timeout(limit, task).await {
                        Ok(Ok(Attempt::Answered(answer))) => return answer,
                        Ok(Ok(Attempt::Elsewhere(Gate::OtherRequest, _))) => {
                            return Answer::Refused(Refusal::Mismatch);
                        }
                        Ok(Ok(Attempt::Elsewhere(_, unused))) => {
                            let Some(left) = left_until(deadline) else {
                                return Answer::Refused(Refusal::InProgress);
                            };
                            work = unused;
                            waited = true;
                            sleep(poll.min(left)).await;
                            poll = (poll * 2).min(POLL.1);
                        }
                        // The runtime is going down, or the commit does not come back.
                        Ok(Err(_)) | Err(_) => {
                            return Answer::Refused(Refusal::OutcomeUnknown);
                        }
                    }
                }
            }
        }
    }

    /// One attempt at the key, from the claim to the commit; runs detached from its client.
    async fn attempt<W: Work<DB>>(self, job: Job, ticket: Ticket, work: W) -> Attempt<W::Value, W> {
        let opened = match self.open(&job).await {
            Ok(opened) => opened,
            Err(error) => {
                ticket.over(Over::Unavailable);
                return Attempt::Answered(Answer::Refused(report(&error)));
            }
        };
        let (mut tx, turn) = match opened {
            Open::Ours(tx, turn) => (tx, turn),
            Open::Elsewhere(gate) => {
                ticket.over(Over::Elsewhere);
                return Attempt::Elsewhere(gate, work);
            }
            Open::Known(finished) => {
                ticket.over(Over::Finished(Arc::clone(&finished)));
                return Attempt::Answered(replay(finished, &job.fingerprint, false));
            }
        };
        if !ticket.starts() {
            // The client was told that the store is down, so the work must not run.
            give_back(tx).await;
            return Attempt::Answered(Answer::Refused(Refusal::StoreUnavailable));
        }
        let claim = Claim::new(Arc::clone(&job.identity), 1);
        tracing::Span::current().record("attempt", claim.attempt());
        let done = match run(work, &mut tx, &claim, job.policy.timeout).await {
            Ok(done) => done,
            Err(refusal) => {
                give_back(tx).await;
                drop(ticket);
                return Attempt::Answered(Answer::Refused(refusal));
            }
        };
        let started = Instant::now();
        let answer = match self.finish(&job, tx, done).await {
            Finish::Committed(value, kept) => {
                let fingerprint = job.fingerprint;
                ticket.over(Over::Finished(Arc::new(Finished { fingerprint, kept })));
                Answer::Executed(value)
            }
            Finish::Released(value) => Answer::Executed(value),
            Finish::Refused(refusal) => Answer::Refused(refusal),
            Finish::Unknown => {
                // The turn to write goes first: the way to the truth may lead through it.
                drop(turn);
                self.settle(&job).await
            }
        };
        observe::stored(job.policy.scope, started.elapsed());
        Attempt::Answered(answer)
    }

    /// Takes a connection, waits for the turn to write, and asks the store for the key.
    async fn open(&self, job: &Job) -> Result<Open<DB>, StoreError> {
        let key = self.columns(&job.identity, &job.fingerprint);
        let mut conn = self.acquire().await?;
        if let Some(found) = DB::peek(&mut conn, self.statements(), &key)
            .await
            .map_err(store_error::<DB>)?
            && decide(Some(&found.row), &job.fingerprint, found.now) != Decision::Run
        {
            return self.known(job, found);
        }
        let turn = if DB::SINGLE_WRITER {
            drop(conn);
            let turn = self.turn_to_write().await?;
            conn = self.acquire().await?;
            Some(turn)
        } else {
            None
        };
        let limits = Limits {
            timeout: job.policy.timeout,
        };
        let opened = DB::open(conn, self.statements(), &key, limits)
            .await
            .map_err(store_error::<DB>)?;
        let row = opened.found.as_ref();
        let decision = decide(
            row.map(|found| &found.row),
            &job.fingerprint,
            row.map_or(0, |r| r.now),
        );
        match (decision, opened.gate, opened.found) {
            (Decision::Run, Gate::Ours, _) => Ok(Open::Ours(opened.tx, turn)),
            (Decision::Run, gate, _) => {
                give_back(opened.tx).await;
                Ok(Open::Elsewhere(gate))
            }
            (_, _, Some(found)) => self.known(job, found),
            // Without a row the decision is to run.
            (_, _, None) => Ok(Open::Elsewhere(Gate::SameRequest)),
        }
    }

    /// Reads what a finished row keeps.
    fn known(&self, job: &Job, found: StoredRow) -> Result<Open<DB>, StoreError> {
        let fingerprint = found.row.fingerprint;
        // What belongs to another request is not even decrypted.
        let kept = if fingerprint == job.fingerprint {
            self.unseal(&job.identity, found.columns)?
        } else {
            Kept::Tombstone
        };
        Ok(Open::Known(Arc::new(Finished { fingerprint, kept })))
    }

    /// Does with the writes and the answer what the work asked for.
    async fn finish<V>(
        &self,
        job: &Job,
        mut tx: Transaction<'static, DB>,
        done: Done<V>,
    ) -> Finish<V> {
        let Done {
            value,
            disposition,
            kept,
        } = done;
        if disposition != Disposition::KeepWithWrites {
            match DB::undo_work(&mut tx).await {
                Ok(AtSavepoint::Done) => {}
                Ok(AtSavepoint::Ended) => return ended(tx).await,
                // The connection is gone, and the writes with it.
                Err(_) if disposition == Disposition::Release => return Finish::Released(value),
                Err(error) => return refused(tx, error).await,
            }
        }
        if disposition == Disposition::Release {
            give_back(tx).await;
            return Finish::Released(value);
        }
        let columns = match self.seal(&job.identity, &kept) {
            Ok(columns) => columns,
            Err(error) => {
                give_back(tx).await;
                return Finish::Refused(report(&error));
            }
        };
        let key = self.columns(&job.identity, &job.fingerprint);
        let completion = Completion {
            key: &key,
            fingerprint: &job.fingerprint,
            columns,
            ttl: job.policy.ttl,
        };
        match DB::store(&mut tx, self.statements(), completion).await {
            Ok(Stored::InPlace) => {}
            Ok(Stored::Ended) => return ended(tx).await,
            Ok(Stored::Taken) => {
                give_back(tx).await;
                return Finish::Unknown;
            }
            Err(error) => return refused(tx, error).await,
        }
        match tx.commit().await.map_err(store_error::<DB>) {
            Ok(()) => Finish::Committed(value, kept),
            // The database says itself that it did not commit.
            Err(error) if error.kind() == StoreErrorKind::Aborted => {
                Finish::Refused(report(&error))
            }
            Err(error) => {
                report(&error);
                Finish::Unknown
            }
        }
    }

    /// Finds out how a commit went whose outcome is unknown: the row is the only witness, and
    /// as long as the old transaction lives it holds the gate.
    async fn settle<V>(&self, job: &Job) -> Answer<V> {
        let deadline = Instant::now() + SETTLE_LIMIT;
        loop {
            match self.open(job).await {
                Ok(Open::Known(finished)) => return replay(finished, &job.fingerprint, false),
                Ok(Open::Ours(tx, _turn)) => {
                    give_back(tx).await;
                    return Answer::Refused(Refusal::Aborted);
                }
                Ok(Open::Elsewhere(Gate::OtherRequest)) => {
                    return Answer::Refused(Refusal::Mismatch);
                }
                Ok(Open::Elsewhere(_)) | Err(_) => {}
            }
            if left_until(deadline).is_none() {
                return Answer::Refused(Refusal::OutcomeUnknown);
            }
            sleep(POLL.1).await;
        }
    }
}

/// What the store says about a key.
enum Open<DB: Backend> {
    Ours(
        Transaction<'static, DB>,
        Option<tokio::sync::OwnedSemaphorePermit>,
    ),
    Elsewhere(Gate),
    Known(Arc<Finished>),
}

enum Finish<V> {
    Committed(V, Kept),
    Released(V),
    Refused(Refusal),
    Unknown,
}

fn left_until(deadline: Instant) -> Option<Duration> {
    deadline
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
}

/// Answers from what is stored, if it belongs to the same request.
fn replay<V>(finished: Arc<Finished>, fingerprint: &Fingerprint, waited: bool) -> Answer<V> {
    if finished.fingerprint != *fingerprint {
        return Answer::Refused(Refusal::Mismatch);
    }
    match finished.kept {
        Kept::Response(_) => Answer::Replayed { finished, waited },
        Kept::Tombstone => Answer::Refused(Refusal::NotKept),
    }
}

/// Runs the work up to its time-out and catches its panic.
pub(crate) async fn run<DB: Backend, W: Work<DB>>(
    work: W,
    tx: &mut Transaction<'static, DB>,
    claim: &Claim,
    limit: Duration,
) -> Result<Done<W::Value>, Refusal> {
    // After a panic nothing is used but the transaction, and that is rolled back.
    let work = AssertUnwindSafe(async move { work.run(tx, claim).await });
    match timeout(limit, work.catch_unwind()).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => {
            tracing::error!("the handler panicked; its writes are rolled back and the key is free");
            Err(Refusal::Panicked)
        }
        Err(_) => {
            tracing::warn!(
                timeout = ?limit,
                "the handler ran out of time; its writes are rolled back and the key is free"
            );
            Err(Refusal::TimedOut)
        }
    }
}

/// Rolls back before the answer, so that a retry finds the key free.
pub(crate) async fn give_back<DB: Backend>(tx: Transaction<'static, DB>) {
    match timeout(ROLLBACK_LIMIT, DB::roll_back(tx)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the rollback failed; the connection is closed"),
        Err(_) => tracing::debug!("the rollback takes long and goes on in the background"),
    }
}

async fn refused<V, DB: Backend>(tx: Transaction<'static, DB>, error: sqlx::Error) -> Finish<V> {
    give_back(tx).await;
    Finish::Refused(report(&store_error::<DB>(error)))
}

async fn ended<V, DB: Backend>(tx: Transaction<'static, DB>) -> Finish<V> {
    tracing::error!(
        "the handler ended the transaction that held its key (COMMIT or ROLLBACK); \
         its writes may stand without a record, and a retry runs again"
    );
    give_back(tx).await;
    Finish::Refused(Refusal::EndedByHandler)
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
