//! Atomic mode: the key, the handler's writes, and the stored response commit in one
//! transaction, or not at all.
//!
//! ```text
//! begin ─ claim ─ savepoint ─ work ─┬ kept ──────────────────────────────── store ─ commit ─ answer
//!                                   ├ kept without writes ─ to savepoint ── store ─ commit ─ answer
//!                                   └ released, panic, out of time ─ rollback ─ answer
//! ```

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Transaction;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

use crate::claim::{Claim, Decision, decide};
use crate::engine::{
    Answer, Attempt, Attempted, Done, Job, SETTLE_LIMIT, SETTLE_PAUSE, STORE_LIMIT, left_until,
    replay, report,
};
use crate::error::{Refusal, StoreError, StoreErrorKind};
use crate::handle::Idempotency;
use crate::in_flight::{Finished, Over, Ticket};
use crate::observe;
use crate::policy::Policy;
use crate::record::{Disposition, Kept};
use crate::store::{Backend, Completion, Gate, KeyColumns, Limits, Stored, Undone, store_error};

/// The work of a claim, inside its transaction.
pub(crate) trait Work<DB: Backend>: Send + 'static {
    type Value: Send + 'static;

    fn run<'t>(
        self,
        tx: &'t mut Transaction<'static, DB>,
        claim: &'t Claim,
    ) -> BoxFuture<'t, Done<Self::Value>>;
}

/// Work in atomic mode.
pub(crate) struct Atomic<W>(pub(crate) W);

/// What the store says about a key.
enum Open<DB: Backend> {
    Ours(Ours<DB>),
    /// The same request is in flight in another process.
    Elsewhere,
    Known(Arc<Finished>),
    Refused(Refusal),
}

/// A key that is ours until the transaction ends.
struct Ours<DB: Backend> {
    tx: Transaction<'static, DB>,
    /// The turn to write, on a database with one writer.
    turn: Option<OwnedSemaphorePermit>,
    /// Whether the key has an expired row.
    replaces: bool,
}

enum Finish<V> {
    Committed(V, Kept),
    Released(V),
    Refused(Refusal),
    Unknown,
}

impl<DB: Backend, W: Work<DB>> Attempt<DB> for Atomic<W> {
    type Value = W::Value;

    fn limit(policy: &Policy) -> Option<Duration> {
        Some(policy.timeout)
    }

    async fn attempt(
        self,
        handle: Idempotency<DB>,
        job: Job,
        ticket: Ticket,
    ) -> Attempted<W::Value, Self> {
        let key = Arc::new(handle.columns(&job.identity));
        let ours = match handle.open_in_time(&job, &key).await {
            Ok(Open::Ours(ours)) => ours,
            Ok(Open::Elsewhere) => {
                ticket.over(Over::Elsewhere);
                return Attempted::Elsewhere(self);
            }
            Ok(Open::Known(finished)) => {
                ticket.over(Over::Finished(Arc::clone(&finished)));
                return Attempted::Answered(replay(finished, &job.fingerprint, false));
            }
            Ok(Open::Refused(refusal)) => return Attempted::refused(refusal),
            Err(error) => {
                ticket.over(Over::Unavailable);
                return Attempted::refused(report(&error));
            }
        };
        let Ours {
            mut tx,
            turn,
            replaces,
        } = ours;
        if !ticket.starts() {
            // The client was told that the store is down, so the work must not run.
            give_back(tx).await;
            return Attempted::refused(Refusal::StoreUnavailable);
        }
        let claim = Claim::new(Arc::clone(&job.identity), 1);
        tracing::Span::current().record("attempt", claim.attempt());
        let done = match run(self.0, &mut tx, &claim, job.policy.timeout).await {
            Ok(done) => done,
            Err(refusal) => {
                let undone = undo(tx).await;
                let refusal = undone.map_or(Refusal::EndedByHandler, |()| refusal);
                return Attempted::refused(refusal);
            }
        };
        let started = Instant::now();
        let finishing = {
            let (handle, job, key) = (handle.clone(), job.clone(), Arc::clone(&key));
            async move { handle.finish(&job, &key, replaces, tx, done).await }
        };
        let finished = handle.within(STORE_LIMIT, finishing).await;
        let answer = match finished.unwrap_or(Finish::Unknown) {
            Finish::Committed(value, kept) => {
                handle.recent().note(&job.identity);
                let fingerprint = job.fingerprint;
                ticket.over(Over::Finished(Arc::new(Finished { fingerprint, kept })));
                Answer::Executed(value)
            }
            Finish::Released(value) => Answer::Executed(value),
            Finish::Refused(refusal) => Answer::Refused(refusal),
            Finish::Unknown => {
                // The turn to write goes first: the way to the truth may lead through it.
                drop(turn);
                let settling = {
                    let (handle, job) = (handle.clone(), job.clone());
                    async move { handle.settle(&job, &key).await }
                };
                let settled = handle.within(SETTLE_LIMIT + SETTLE_PAUSE, settling).await;
                settled.unwrap_or(Answer::Refused(Refusal::OutcomeUnknown))
            }
        };
        observe::stored(job.policy.scope, started.elapsed());
        Attempted::Answered(answer)
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Opens the key, unless the store stays silent for too long.
    async fn open_in_time(&self, job: &Job, key: &Arc<KeyColumns>) -> Result<Open<DB>, StoreError> {
        let (handle, job, key) = (self.clone(), job.clone(), Arc::clone(key));
        let opening = async move { handle.open(&job, &key).await };
        self.in_time(STORE_LIMIT, opening).await
    }

    /// Takes a connection, waits for the turn to write, and asks the store for the key.
    async fn open(&self, job: &Job, key: &KeyColumns) -> Result<Open<DB>, StoreError> {
        let mut conn = self.acquire().await?;
        // A replay needs no transaction, and must not queue behind a writer. Where writers do not
        // exclude each other, a read in front would cost every new key a round trip.
        if (DB::SINGLE_WRITER || self.recent().may_hold(&job.identity))
            && let Some(found) = DB::find(&mut conn, self.statements(), key)
                .await
                .map_err(store_error::<DB>)?
            && decide(Some(&found.row), &job.fingerprint, found.now) != Decision::Run
        {
            return self.known(job, Some(found), Gate::Ours);
        }
        let mut turn = None;
        if DB::SINGLE_WRITER {
            turn = self.turn_now();
            if turn.is_none() {
                // Not with a connection in hand, which a reader could use.
                drop(conn);
                turn = self.turn_to_write().await?;
                conn = self.acquire().await?;
            }
        }
        let limits = Limits::for_work(job.policy.timeout);
        let opened = DB::open(conn, self.statements(), key, &job.fingerprint, limits)
            .await
            .map_err(store_error::<DB>)?;
        let row = opened.found.as_ref();
        let now = row.map_or(0, |row| row.now);
        match (
            decide(row.map(|found| &found.row), &job.fingerprint, now),
            opened.gate,
        ) {
            (Decision::Run, Gate::Ours) => Ok(Open::Ours(Ours {
                tx: opened.tx,
                turn,
                replaces: opened.found.is_some(),
            })),
            (Decision::Run, gate) => {
                // Its lock would make a third request believe that this one is in flight.
                give_back(opened.tx).await;
                self.known(job, None, gate)
            }
            (_, gate) => {
                // Who retries once may retry again.
                self.recent().note(&job.identity);
                self.known(job, opened.found, gate)
            }
        }
    }

    /// What is known of a key that is not ours.
    fn known(
        &self,
        job: &Job,
        found: Option<crate::store::StoredRow>,
        gate: Gate,
    ) -> Result<Open<DB>, StoreError> {
        let Some(found) = found else {
            return Ok(match gate {
                Gate::OtherRequest => Open::Refused(Refusal::Mismatch),
                Gate::Ours | Gate::SameRequest => Open::Elsewhere,
            });
        };
        Ok(
            match decide(Some(&found.row), &job.fingerprint, found.now) {
                Decision::Replay | Decision::NotKept => Open::Known(self.finished(job, found)?),
                Decision::Mismatch => Open::Refused(Refusal::Mismatch),
                Decision::NeedsReconciliation => Open::Refused(Refusal::NeedsReconciliation),
                // Claimed by a leased run: the handler's mode changed with a deployment.
                Decision::Run | Decision::InProgress | Decision::TakeOver => Open::Elsewhere,
            },
        )
    }

    /// Does with the writes and the answer what the work asked for.
    async fn finish<V>(
        &self,
        job: &Job,
        key: &KeyColumns,
        replaces: bool,
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
                Ok(Undone::Done) => {}
                Ok(Undone::Ended) => return ended(tx).await,
                Ok(Undone::RolledBack) => {
                    tracing::warn!(
                        "the transaction that held the key was rolled back under the handler: by \
                         SQLite itself, as where the disk is full, or by sqlx, where a nested \
                         transaction failed to begin; the key is free"
                    );
                    give_back(tx).await;
                    return if disposition == Disposition::Release {
                        Finish::Released(value)
                    } else {
                        Finish::Refused(Refusal::Aborted)
                    };
                }
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
        let completion = Completion {
            key,
            fingerprint: &job.fingerprint,
            columns,
            ttl: job.policy.ttl,
            replaces,
        };
        #[cfg(idem_seeded_bugs)]
        if crate::seeded::bug("store_after_commit") {
            tx.commit().await.ok();
            tx = match self.open(job, key).await {
                Ok(Open::Ours(ours)) => ours.tx,
                _ => return Finish::Unknown,
            };
        }
        match DB::store(&mut tx, self.statements(), completion).await {
            Ok(Stored::InPlace) => {}
            #[cfg(idem_seeded_bugs)]
            Ok(Stored::Taken) if crate::seeded::bug("check_then_insert") => {}
            Ok(Stored::Ended) => return ended(tx).await,
            Ok(Stored::Taken) => {
                give_back(tx).await;
                return Finish::Unknown;
            }
            Err(error) => return refused(tx, error).await,
        }
        #[cfg(idem_seeded_bugs)]
        if crate::seeded::bug("answer_before_commit") {
            self.tasks().spawn(async move {
                sleep(Duration::from_millis(20)).await;
                tx.commit().await
            });
            return Finish::Committed(value, kept);
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
    async fn settle<V>(&self, job: &Job, key: &KeyColumns) -> Answer<V> {
        let deadline = Instant::now() + SETTLE_LIMIT;
        loop {
            match self.open(job, key).await {
                Ok(Open::Known(finished)) => return replay(finished, &job.fingerprint, false),
                Ok(Open::Ours(Ours {
                    tx, turn: _turn, ..
                })) => {
                    give_back(tx).await;
                    return Answer::Refused(Refusal::Aborted);
                }
                Ok(Open::Refused(refusal)) => return Answer::Refused(refusal),
                Ok(Open::Elsewhere) | Err(_) => {}
            }
            if left_until(deadline).is_none() {
                return Answer::Refused(Refusal::OutcomeUnknown);
            }
            sleep(SETTLE_PAUSE).await;
        }
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
                "the handler ran out of time; its writes are rolled back, and the key is free once the \
                 statement in hand, if there is one, has ended"
            );
            Err(Refusal::TimedOut)
        }
    }
}

/// How long a rollback may hold up an answer; later it goes on behind it.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(1);

/// Rolls back before the answer, so that a retry finds the key free.
pub(crate) async fn give_back<DB: Backend>(tx: Transaction<'static, DB>) {
    match timeout(ROLLBACK_LIMIT, DB::roll_back(tx)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the rollback failed; the connection is closed"),
        Err(_) => tracing::debug!("the rollback takes long and goes on in the background"),
    }
}

/// Rolls back what the work left, and finds out whether there was anything to roll back: what it has
/// committed stays, however it ended.
pub(crate) async fn undo<DB: Backend>(mut tx: Transaction<'static, DB>) -> Result<(), Ended> {
    // Work that ran out of time may have left a statement that still runs.
    let undone = timeout(ROLLBACK_LIMIT, DB::undo_work(&mut tx)).await;
    give_back(tx).await;
    if matches!(undone, Ok(Ok(Undone::Ended))) {
        say_ended();
        return Err(Ended);
    }
    Ok(())
}

/// The work ended the transaction itself.
pub(crate) struct Ended;

async fn refused<V, DB: Backend>(tx: Transaction<'static, DB>, error: sqlx::Error) -> Finish<V> {
    give_back(tx).await;
    Finish::Refused(report(&store_error::<DB>(error)))
}

async fn ended<V, DB: Backend>(tx: Transaction<'static, DB>) -> Finish<V> {
    say_ended();
    give_back(tx).await;
    Finish::Refused(Refusal::EndedByHandler)
}

pub(crate) fn say_ended() {
    tracing::error!(
        "the transaction of the request is over: the handler ended it (COMMIT or ROLLBACK), or \
         went on after an error with which the database or sqlx had rolled it back; \
         its writes may stand without a record, and a retry runs again"
    );
}
