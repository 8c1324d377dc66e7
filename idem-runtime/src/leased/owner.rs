//! The owner of a leased claim towards the database: each operation is one transaction, fenced by
//! the attempt, and runs to its end even when who asked for it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use crate::claim::{Identity, State};
use crate::engine::{SETTLE_LIMIT, SETTLE_PAUSE, left_until, report};
use crate::error::StoreError;
use crate::handle::{Idempotency, Writing};
use crate::policy::{OnTakeover, TTL_RANGE};
use crate::store::lease::{self, Fence, Terms};
use crate::store::{AtSavepoint, Backend, Limits, ResponseColumns, StoredRow, store_error};

/// Who holds a lease, or believes so.
#[derive(Debug)]
pub(super) struct Owner<DB: Backend> {
    pub(super) handle: Idempotency<DB>,
    pub(super) identity: Arc<Identity>,
    pub(super) fence: Fence,
    pub(super) terms: Terms,
    pub(super) on_takeover: OnTakeover,
    /// Steps that this run began and did not finish.
    pub(super) begun: AtomicU32,
    /// Set once a statement has found another attempt, or a parked key, in its place.
    pub(super) lost: CancellationToken,
}

/// A step that is done, on its way into its record.
struct Ending {
    name: String,
    sealed: Vec<u8>,
    /// Whether it is counted off the steps that are begun.
    counted: AtomicBool,
}

/// The outcome of a statement behind the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Fenced {
    Done,
    LeaseLost,
    /// The work ended the transaction itself.
    Ended,
}

/// How long the work of a transaction step may take.
pub(super) const WORK_LIMIT: Duration = Duration::from_mins(1);

impl<DB: Backend> Owner<DB> {
    /// Begins a transaction in which a step's own work runs.
    pub(super) async fn begin_work(&self) -> Result<Writing<DB>, StoreError> {
        self.handle.begin(Limits::for_work(WORK_LIMIT)).await
    }

    async fn begin(&self) -> Result<Writing<DB>, StoreError> {
        self.handle.begin(self.terms.limits()).await
    }

    /// Renews the lease: the claim holds from now on as long as at first. Again where a step began or
    /// ended meanwhile, since what it wrote about the ttl may be overwritten.
    pub(super) async fn renew(self: Arc<Self>) -> Result<Fenced, StoreError> {
        loop {
            let mut writing = self.begin().await?;
            let begun = self.begun.load(Ordering::SeqCst);
            let renewed = self.renew_in(&mut writing, begun).await;
            let renewed = self.end(writing, renewed).await?;
            if renewed != Fenced::Done || begun == self.begun.load(Ordering::SeqCst) {
                return Ok(renewed);
            }
        }
    }

    /// Renews the lease with `begun` steps open. One that only an operator can judge keeps the key from
    /// expiring, and so from being claimed as a new one.
    async fn renew_in(&self, writing: &mut Writing<DB>, begun: u32) -> Result<bool, sqlx::Error> {
        let open = begun > 0 && self.on_takeover == OnTakeover::Reconcile;
        let ttl = if open {
            *TTL_RANGE.end()
        } else {
            self.terms.ttl
        };
        let terms = Terms { ttl, ..self.terms };
        let sql = &self.handle.statements().lease;
        lease::renew(&mut writing.tx, sql, &self.fence, terms).await
    }

    /// Notes that a step begins, under a whole lease. It goes on trying while the database does not
    /// answer: nothing is called yet, but a step that is noted parks the key under `reconcile`.
    pub(super) async fn begin_step(self: Arc<Self>, name: String) -> Result<Fenced, StoreError> {
        // Once for all tries, and before the first: any of them may open the question.
        self.begun.fetch_add(1, Ordering::SeqCst);
        let name: Arc<str> = name.into();
        self.insist(|owner| owner.try_to_begin(Arc::clone(&name)))
            .await
    }

    async fn try_to_begin(self: Arc<Self>, name: Arc<str>) -> Result<Fenced, StoreError> {
        let mut writing = self.begin().await?;
        let open = self.begun.load(Ordering::SeqCst);
        let sql = &self.handle.statements().lease;
        let begun = match self.renew_in(&mut writing, open).await {
            Ok(true) => {
                lease::begin_step(&mut writing.tx, sql, &self.fence, &name)
                    .await
                    // Behind the fence a step with a result is ours: this try comes after a later one.
                    .map(|_| true)
            }
            other => other,
        };
        let begun = self.end(writing, begun).await?;
        if begun == Fenced::Done && self.begun.load(Ordering::SeqCst) == 0 {
            // It came through after the end of the step, and may have kept the key for a closed question.
            return self.renew().await;
        }
        Ok(begun)
    }

    /// Records a step's result, and goes on trying while the database does not answer: what the step
    /// did is done, and without its record the next attempt would do it again.
    pub(super) async fn end_step(
        self: Arc<Self>,
        name: String,
        result: Vec<u8>,
    ) -> Result<Fenced, StoreError> {
        let sealed = self.handle.seal_step(&self.identity, &name, result)?;
        let ending = Arc::new(Ending {
            name,
            sealed,
            counted: AtomicBool::new(false),
        });
        self.insist(|owner| owner.try_to_end(Arc::clone(&ending)))
            .await
    }

    async fn try_to_end(self: Arc<Self>, step: Arc<Ending>) -> Result<Fenced, StoreError> {
        let mut writing = self.begin().await?;
        let left = self.begun.load(Ordering::SeqCst).saturating_sub(1);
        let sql = &self.handle.statements().lease;
        let recorded = match self.renew_in(&mut writing, left).await {
            Ok(true) => {
                lease::end_step(&mut writing.tx, sql, &self.fence, &step.name, &step.sealed)
                    .await
                    // Behind the fence a result that is there is ours: of a try that got no answer.
                    .map(|_| true)
            }
            other => other,
        };
        let recorded = self.end(writing, recorded).await?;
        if recorded == Fenced::Done {
            let now = if step.counted.swap(true, Ordering::SeqCst) {
                self.begun.load(Ordering::SeqCst)
            } else {
                self.begun.fetch_sub(1, Ordering::SeqCst) - 1
            };
            if now != left {
                // The step is recorded, whatever becomes of this one.
                return Ok(self.renew().await.unwrap_or(recorded));
            }
        }
        Ok(recorded)
    }

    /// Tries a write again while the database does not answer. A first try on a connection that is dead
    /// without knowing leaves time for a second one; it goes on behind, so each try must do no harm
    /// after another.
    pub(super) async fn insist<F>(
        self: &Arc<Self>,
        write: impl Fn(Arc<Self>) -> F,
    ) -> Result<Fenced, StoreError>
    where
        F: Future<Output = Result<Fenced, StoreError>> + Send + 'static,
    {
        let deadline = Instant::now() + SETTLE_LIMIT + SETTLE_PAUSE;
        loop {
            let writing = write(Arc::clone(self));
            match self.handle.in_time(SETTLE_LIMIT, writing).await {
                Err(error) if left_until(deadline).is_some() => {
                    report(&error);
                    sleep(SETTLE_PAUSE).await;
                }
                written => return written,
            }
        }
    }

    /// Records a step's result in the transaction that holds its writes.
    pub(super) async fn end_transaction(
        &self,
        mut writing: Writing<DB>,
        name: &str,
        result: Vec<u8>,
    ) -> Result<Fenced, StoreError> {
        let ready = match self.handle.seal_step(&self.identity, name, result) {
            Ok(sealed) => self.conclude(&mut writing).await.map(|kept| (kept, sealed)),
            Err(error) => Err(error),
        };
        match ready {
            Ok((AtSavepoint::Done, sealed)) => {
                let begun = self.begun.load(Ordering::SeqCst);
                let sql = &self.handle.statements().lease;
                let recorded = match self.renew_in(&mut writing, begun).await {
                    Ok(true) => {
                        lease::end_step(&mut writing.tx, sql, &self.fence, name, &sealed).await
                    }
                    other => other,
                };
                self.end(writing, recorded).await
            }
            Ok((AtSavepoint::Ended, _)) => {
                writing.give_back().await;
                Ok(Fenced::Ended)
            }
            Err(error) => {
                writing.give_back().await;
                Err(error)
            }
        }
    }

    /// The work is over: what follows is ours, and locks the key's row.
    async fn conclude(&self, writing: &mut Writing<DB>) -> Result<AtSavepoint, StoreError> {
        let kept = DB::keep_work(&mut writing.tx)
            .await
            .map_err(store_error::<DB>)?;
        if kept == AtSavepoint::Done {
            let limits = self.terms.limits();
            DB::limit(&mut writing.tx, limits)
                .await
                .map_err(store_error::<DB>)?;
        }
        Ok(kept)
    }

    /// Stores the outcome of the run.
    pub(super) async fn finish(
        self: Arc<Self>,
        columns: Arc<ResponseColumns>,
    ) -> Result<Fenced, StoreError> {
        let mut writing = self.begin().await?;
        let sql = &self.handle.statements().lease;
        let stored =
            lease::finish(&mut writing.tx, sql, &self.fence, &columns, self.terms.ttl).await;
        self.end(writing, stored).await
    }

    /// Gives the key back for the next attempt.
    pub(super) async fn release(self: Arc<Self>) -> Result<Fenced, StoreError> {
        let mut writing = self.begin().await?;
        let sql = &self.handle.statements().lease;
        let released = lease::release(&mut writing.tx, sql, &self.fence).await;
        self.end(writing, released).await
    }

    /// Leaves the key to an operator.
    pub(super) async fn park(&self) -> Result<Fenced, StoreError> {
        let mut writing = self.begin().await?;
        let sql = &self.handle.statements().lease;
        let parked = lease::park(&mut writing.tx, sql, &self.fence, self.terms.ttl).await;
        self.end(writing, parked).await
    }

    /// Commits what the fence let through, and takes back what it did not.
    async fn end(
        &self,
        writing: Writing<DB>,
        passed: Result<bool, sqlx::Error>,
    ) -> Result<Fenced, StoreError> {
        match passed {
            Ok(true) => writing.commit().await.map(|()| Fenced::Done),
            Ok(false) => {
                writing.give_back().await;
                self.lost.cancel();
                Ok(Fenced::LeaseLost)
            }
            Err(error) => {
                writing.give_back().await;
                Err(store_error::<DB>(error))
            }
        }
    }

    /// Reads the key, whoever owns it by now.
    pub(super) async fn read(self: Arc<Self>) -> Result<Option<StoredRow>, StoreError> {
        self.handle.read(&self.fence.key).await
    }

    /// Whether a row is this attempt's own outcome.
    pub(super) fn wrote(&self, row: &StoredRow) -> bool {
        row.token == self.fence.token && matches!(row.row.state, State::Finished | State::Tombstone)
    }

    /// Renews the lease at a third of its length, until the guard is dropped or the lease is lost.
    pub(super) fn keep_alive(self: &Arc<Self>) -> DropGuard {
        let stop = CancellationToken::new();
        let owner = Arc::clone(self);
        let beat = beat(owner, stop.clone());
        self.handle.tasks().spawn(beat.in_current_span());
        stop.drop_guard()
    }
}

async fn beat<DB: Backend>(owner: Arc<Owner<DB>>, stop: CancellationToken) {
    let period = owner.terms.lease / 3;
    let mut pause = period;
    // Only the pause can be interrupted, never a statement.
    while stop.run_until_cancelled(sleep(pause)).await.is_some() {
        let renewal = Arc::clone(&owner).renew();
        match owner.handle.in_time(period, renewal).await {
            Ok(Fenced::Done) => pause = period,
            Ok(Fenced::LeaseLost | Fenced::Ended) => {
                if !stop.is_cancelled() {
                    tracing::warn!("the lease is lost; the run that holds it changes nothing more");
                }
                return;
            }
            Err(error) => {
                report(&error);
                // A third of the lease is left, or two.
                pause = period / 4;
            }
        }
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Reads a key outside any transaction.
    pub(super) async fn read(
        &self,
        key: &crate::store::KeyColumns,
    ) -> Result<Option<StoredRow>, StoreError> {
        let mut conn = self.acquire().await?;
        DB::find(&mut conn, self.statements(), key)
            .await
            .map_err(store_error::<DB>)
    }
}
