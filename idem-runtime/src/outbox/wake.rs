//! How relays hear of messages that a handler wrote: behind its commit.
//!
//! PostgreSQL lets one transaction with a notification commit at a time, over the whole database and
//! until it is on the disk. So work that this library commits notes what it wrote, and a statement of
//! its own tells the relays once for many. Where the caller commits, only his transaction knows when,
//! and the notification is part of it.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::SqlStr;
use tokio::task_local;
use tokio::time::sleep;
use tracing::Instrument;

use crate::error::StoreError;
use crate::handle::Idempotency;
use crate::store::{Backend, store_error};

/// The least time between two rounds of notifications of a handle.
const PAUSE: Duration = Duration::from_millis(10);

task_local! {
    /// The notifications that the work of this task owes.
    static OWED: RefCell<Vec<SqlStr>>;
}

/// Leaves a notification to those who commit the work of this task; false where nobody does.
pub(super) fn leave(notify: &SqlStr) -> bool {
    OWED.try_with(|owed| add(&mut owed.borrow_mut(), notify))
        .is_ok()
}

fn add(list: &mut Vec<SqlStr>, notify: &SqlStr) {
    if list.iter().all(|known| known.as_str() != notify.as_str()) {
        list.push(notify.clone());
    }
}

/// What a handle has still to tell, and whether a task is at it.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Mutex<(Vec<SqlStr>, bool)>);

impl Wakes {
    /// Adds notifications; true when a task has to be started for them.
    fn add(&self, owed: &[SqlStr]) -> bool {
        let mut wakes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for notify in owed {
            add(&mut wakes.0, notify);
        }
        !std::mem::replace(&mut wakes.1, true)
    }

    /// What is to be told now; with nothing left the task ends.
    fn take(&self) -> Vec<SqlStr> {
        let mut wakes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = std::mem::take(&mut wakes.0);
        wakes.1 = !owed.is_empty();
        owed
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Does work that commits by itself, and then wakes the relays of what it wrote.
    pub(crate) async fn waking<T>(self, work: impl Future<Output = T>) -> T {
        let work = async {
            let done = work.await;
            self.wake_relays();
            done
        };
        OWED.scope(RefCell::default(), work).await
    }

    /// Tells, in the background, of what the work of this task has written up to now.
    pub(crate) fn wake_relays(&self) {
        let owed = OWED.try_with(RefCell::take).unwrap_or_default();
        if !owed.is_empty() && self.wakes().add(&owed) {
            let handle = self.clone();
            let telling = async move { handle.tell().await };
            self.tasks().spawn(telling.in_current_span());
        }
    }

    async fn tell(&self) {
        loop {
            let owed = self.wakes().take();
            if owed.is_empty() {
                return;
            }
            if let Err(error) = self.notify(owed).await {
                tracing::debug!(%error, "relays are not woken and find the messages by polling");
            }
            sleep(PAUSE).await;
        }
    }

    async fn notify(&self, statements: Vec<SqlStr>) -> Result<(), StoreError> {
        let mut conn = self.acquire().await?;
        for statement in &statements {
            DB::execute(&mut conn, statement, &[])
                .await
                .map_err(store_error::<DB>)?;
        }
        Ok(())
    }
}
