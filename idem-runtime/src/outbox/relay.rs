//! The relay: from the table to the sink.
//!
//! It claims rows in one short transaction, publishes without any, and settles each row in another:
//! no connection is held while somebody else's server is waited for.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Sink;
use super::attempt::{Attempted, LIMITS, publish, settle};
use super::outage::Outage;
use super::settings::{LONGEST, SHORTEST_LEASE, Settings};
use crate::engine::report;
use crate::error::StoreError;
use crate::handle::Idempotency;
use crate::store::outbox::{self, MessageRow, Verdict};
use crate::store::{Backend, store_error};

/// Sends what is in a handle's outbox to a sink. Any number of relays may run at once, in any
/// number of processes.
///
/// Each message is sent at least once, and twice only when a relay dies, or loses the database,
/// between publishing and marking. Messages of one key are sent one after the other: the next is
/// not even claimed before the one in front is confirmed, or is a dead letter.
#[derive(Debug)]
#[must_use = "`spawn` starts it"]
pub struct Relay<DB: Backend, S> {
    handle: Idempotency<DB>,
    sink: Arc<S>,
    settings: Settings,
}

impl<DB: Backend, S: Sink> Relay<DB, S> {
    /// Makes a relay with the defaults.
    pub fn new(handle: &Idempotency<DB>, sink: S) -> Self {
        Self {
            handle: handle.clone(),
            sink: Arc::new(sink),
            settings: Settings::default(),
        }
    }

    /// Sets how many messages are published at once, each of another key; 16 by default. At least
    /// one is.
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.settings.concurrency = messages.max(1);
        self
    }

    /// Sets how long a claim survives its relay's death; 30 seconds by default, from 100 milliseconds
    /// to 400 days.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease.clamp(SHORTEST_LEASE, LONGEST);
        self
    }

    /// Sets how long the sink has for one attempt; 10 seconds by default, and never more than half
    /// a lease.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Sets after how many failures a message is a dead letter; 20 by default, which with the
    /// default pauses is about an hour. A relay's death in the middle of an attempt counts.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts.max(1);
        self
    }

    /// Sets the pause after the first failure, which doubles with each, and the longest one; 1
    /// second and 5 minutes by default, up to 400 days.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.backoff = (first, longest.min(LONGEST));
        self
    }

    /// Sets how often the table is looked at without being told to; every second by default, at
    /// most once a millisecond and at least every 400 days. On PostgreSQL a commit wakes the relay at once.
    pub fn poll(mut self, period: Duration) -> Self {
        self.settings.poll = period.clamp(Duration::from_millis(1), LONGEST);
        self
    }

    /// Sets how long a sent message stays in the table before
    /// [`sweep`](Idempotency::sweep) removes it; 24 hours by default, up to 400 days.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.settings.retention = retention.min(LONGEST);
        self
    }

    /// Starts the relay in the background, until the [`RelayTask`] is stopped or dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn(self) -> RelayTask {
        let stop = CancellationToken::new();
        let table = &self.handle.settings().tables.outbox;
        let arrivals = DB::arrivals(self.handle.pool(), table);
        let task = tokio::spawn(self.run(arrivals, stop.clone(), false));
        RelayTask {
            stop,
            task: Some(task),
        }
    }

    /// Sends what is due, and returns how many messages were confirmed. For cron and for tests; a
    /// service runs [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// [`StoreError`] when rows cannot be claimed.
    ///
    /// # Cancel safety
    /// The relay goes on when this future is dropped.
    pub async fn send_due(self) -> Result<u64, StoreError> {
        let handle = self.handle.clone();
        let arrivals = stream::pending().boxed();
        let run = self.run(arrivals, CancellationToken::new(), true);
        handle.detached(run).await
    }

    /// Claims, publishes, and settles, until it is stopped or, if `once`, until nothing is due.
    async fn run(
        self,
        mut arrivals: BoxStream<'static, ()>,
        stop: CancellationToken,
        once: bool,
    ) -> Result<u64, StoreError> {
        let mut poll = interval(self.settings.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut attempts = JoinSet::new();
        let (mut sent, mut more, mut outage) = (0, true, Outage::default());
        let mut failed = None;
        loop {
            let free = self.settings.concurrency - attempts.len();
            if more && free > 0 && !stop.is_cancelled() && outage.is_over() && failed.is_none() {
                match self.claim(free).await {
                    Ok((rows, until)) => {
                        more = rows.len() == free;
                        for row in rows {
                            attempts.spawn(self.attempt(row, until));
                        }
                    }
                    // What is on its way gets its verdict first.
                    Err(error) if once => failed = Some(error),
                    Err(error) => {
                        report(&error);
                        more = false;
                    }
                }
            }
            let idle = attempts.is_empty();
            if idle && let Some(error) = failed {
                return Err(error);
            }
            if idle && (stop.is_cancelled() || (once && (!more || outage.until.is_some()))) {
                return Ok(sent);
            }
            tokio::select! {
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                Some(attempted) = attempts.join_next(), if !idle => {
                    // The next message of its key may go.
                    more = true;
                    sent += outage.learn(attempted, &self.settings);
                    while let Some(attempted) = attempts.try_join_next() {
                        sent += outage.learn(attempted, &self.settings);
                    }
                }
                Some(()) = arrivals.next() => more = true,
                _ = poll.tick(), if !once => more = true,
                () = outage.end(), if outage.until.is_some() => outage.until = None,
            }
        }
    }

    /// Claims up to `free` rows, and says until when they are ours for certain.
    async fn claim(&self, free: usize) -> Result<(Vec<MessageRow>, Instant), StoreError> {
        let (handle, lease) = (self.handle.clone(), self.settings.lease);
        let claim = async move {
            let mut writing = handle.begin(LIMITS).await?;
            // Taken before the database's clock is read, so never too late.
            let until = Instant::now() + lease;
            let sql = &handle.statements().outbox;
            let claimed = outbox::claim::<DB>(&mut writing.tx, sql, free, lease).await;
            match claimed {
                Ok(mut rows) => {
                    writing.commit().await?;
                    rows.sort_by_key(|row| row.id);
                    Ok((rows, until))
                }
                Err(error) => {
                    writing.give_back().await;
                    Err(store_error::<DB>(error))
                }
            }
        };
        let handle = self.handle.clone();
        let give_back = async move |(rows, until): (Vec<MessageRow>, Instant)| {
            for row in rows {
                settle(&handle, row.claimed(), &Verdict::GiveBack, until).await;
            }
        };
        self.handle.claimed_in_time(claim, give_back).await
    }

    /// One attempt at a message: publishes it, and writes down how it went.
    fn attempt(
        &self,
        row: MessageRow,
        until: Instant,
    ) -> impl Future<Output = Attempted> + Send + 'static {
        let (handle, sink, settings) = (self.handle.clone(), self.sink.clone(), self.settings);
        async move {
            let claimed = row.claimed();
            let failures = u32::try_from(row.attempts).unwrap_or(u32::MAX);
            let (verdict, attempted) = if failures >= settings.max_attempts {
                let died = || "each relay that sent it died".to_owned();
                // The limit may be lower than it was.
                let error = row.error.unwrap_or_else(died);
                (Verdict::Bury { error }, Attempted::Failed)
            } else if Instant::now() + settings.attempt_limit() > until {
                tracing::warn!("the database is too slow for the lease; the relay pauses");
                (Verdict::GiveBack, Attempted::Unavailable)
            } else {
                publish(&*sink, row, failures, &settings).await
            };
            settle(&handle, claimed, &verdict, until).await;
            attempted
        }
    }
}

/// A relay in the background; stops when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it stops the relay"]
pub struct RelayTask {
    stop: CancellationToken,
    task: Option<JoinHandle<Result<u64, StoreError>>>,
}

impl RelayTask {
    /// Claims nothing more, and waits until what is being published is settled.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic of the task was reported when it happened.
            task.await.ok();
        }
    }
}

impl Drop for RelayTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
