//! Removing expired keys, in batches that no claim waits for.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::error::StoreError;
use crate::handle::Idempotency;
use crate::store::{Backend, Limits, outbox, store_error};

/// How many keys one statement removes.
const BATCH: u32 = 1_000;

/// How long the server may work on one batch of messages, behind the answer that it takes too long.
const LIMIT: Duration = Duration::from_mins(10);

/// What one batch has removed.
struct Batch {
    keys: u64,
    messages: u64,
}

impl Batch {
    const fn is_last(&self) -> bool {
        self.keys < BATCH as u64 && self.messages < BATCH as u64
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Removes every expired key, batch by batch, and returns how many it removed; also the sent
    /// messages of the outbox whose retention is over, which are not counted. For cron; a
    /// service runs [`spawn_sweeper`](Self::spawn_sweeper).
    ///
    /// A key in flight is never removed, and a key that someone has locked is left for the next
    /// sweep. Expiry does not depend on it: an expired key counts as new at once.
    ///
    /// # Errors
    /// [`StoreError`] when a batch fails; what earlier batches removed stays removed.
    ///
    /// # Cancel safety
    /// Dropping the future stops between two batches.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let batch = self.sweep_batch().await?;
            removed += batch.keys;
            if batch.is_last() {
                return Ok(removed);
            }
        }
    }

    /// Removes one batch.
    async fn sweep_batch(&self) -> Result<Batch, StoreError> {
        let handle = self.clone();
        self.detached_in_time(async move {
            let _turn = handle.turn_to_write().await?;
            let conn = handle.acquire().await?;
            let messages = async {
                // Not on its own: the transaction of a statement takes the defaults of the server.
                let mut tx = DB::open_unclaimed(conn, Limits::for_ours(LIMIT)).await?;
                let outbox = &handle.statements().outbox;
                let messages = outbox::sweep::<DB>(&mut tx, outbox, BATCH).await?;
                tx.commit().await.map(|()| messages)
            };
            let messages = messages.await.map_err(store_error::<DB>)?;
            let keys = DB::sweep(handle.pool(), handle.statements(), BATCH)
                .await
                .map_err(store_error::<DB>)?;
            Ok(Batch { keys, messages })
        })
        .await
    }

    /// Sweeps now and then after each `period`, until the [`Sweeper`] is stopped or dropped.
    ///
    /// # Panics
    /// When `period` is zero, and outside a tokio runtime.
    pub fn spawn_sweeper(&self, period: Duration) -> Sweeper {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let handle = self.clone();
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let task = tokio::spawn(async move {
            while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
                handle.sweep_until(&stopped).await;
            }
        });
        Sweeper {
            stop,
            task: Some(task),
        }
    }

    async fn sweep_until(&self, stopped: &CancellationToken) {
        let mut removed = 0;
        while !stopped.is_cancelled() {
            match self.sweep_batch().await {
                Ok(batch) => {
                    removed += batch.keys;
                    if batch.is_last() {
                        break;
                    }
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(cause, "the sweep stopped and goes on next time: {error}");
                    break;
                }
            }
        }
        if removed > 0 {
            tracing::debug!(removed, "swept expired keys");
        }
    }
}

/// A background task that sweeps; stops when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it stops the sweep"]
pub struct Sweeper {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Stops after the batch that runs now, and waits for it.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic of the task was reported when it happened.
            task.await.ok();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
