//! The keys that this process works on right now.
//!
//! A duplicate of one of them never reaches the database: it is refused here,
//! or waits here in memory until the first is done.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{panic, thread};

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::claim::Identity;
use crate::fingerprint::Fingerprint;
use crate::observe;
use crate::record::Kept;

/// What is known to be stored for a key.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) kept: Kept,
}

/// How far the owner of a key is.
#[derive(Clone, Debug)]
enum Phase {
    /// It asks the store whose the key is.
    Claiming,
    /// It owns the key.
    Running,
    Over(Over),
}

/// How the owner's work ended.
#[derive(Clone, Debug)]
pub(crate) enum Over {
    /// The key is finished, by this owner or by an earlier one.
    Finished(Arc<Finished>),
    /// The same request runs in another process.
    Elsewhere,
    /// The key is free again, or nobody knows.
    Free,
    /// The store did not answer.
    Unavailable,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashMap<Arc<Identity>, Occupied>>>);

#[derive(Clone, Debug)]
pub(crate) struct Occupied {
    fingerprint: Fingerprint,
    phase: watch::Receiver<Phase>,
    /// When its owner took the key in this process, before it asked the store.
    began: Instant,
}

/// The outcome of [`InFlight::enter`].
pub(crate) enum Entrance {
    Entered(Ticket, Progress),
    Occupied(Occupied),
}

impl InFlight {
    /// Takes the key in this process, or shows who has it.
    pub(crate) fn enter(&self, identity: &Arc<Identity>, fingerprint: Fingerprint) -> Entrance {
        let mut entries = self.entries();
        if let Some(occupied) = entries.get(identity) {
            return Entrance::Occupied(occupied.clone());
        }
        let (phase, watching) = watch::channel(Phase::Claiming);
        let occupied = Occupied {
            fingerprint,
            phase: watching.clone(),
            began: Instant::now(),
        };
        entries.insert(Arc::clone(identity), occupied);
        drop(entries);
        let decided = Arc::new(AtomicBool::new(false));
        let progress = Progress {
            phase: watching,
            decided: Arc::clone(&decided),
        };
        let mut ticket = Ticket {
            keys: self.clone(),
            identity: Arc::clone(identity),
            phase,
            decided,
            counted: false,
        };
        // Code of the application: when it panics, the ticket gives the key back.
        observe::entered();
        ticket.counted = true;
        Entrance::Entered(ticket, progress)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Arc<Identity>, Occupied>> {
        // No code panics while it holds the lock, and an entry is whole at all times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many keys are in flight.
    pub(crate) fn len(&self) -> usize {
        self.entries().len()
    }
}

/// The right to work on a key in this process; gives it back when dropped.
pub(crate) struct Ticket {
    keys: InFlight,
    identity: Arc<Identity>,
    phase: watch::Sender<Phase>,
    decided: Arc<AtomicBool>,
    /// Whether the recorder of metrics has counted it.
    counted: bool,
}

impl Ticket {
    /// Says that the store gave us the key; false when the request has given up before.
    pub(crate) fn starts(&self) -> bool {
        let gave_up = self.decided.swap(true, Ordering::AcqRel);
        if !gave_up {
            self.phase.send_replace(Phase::Running);
        }
        !gave_up
    }

    /// The work is over. Whoever comes from now on asks the store.
    pub(crate) fn over(self, over: Over) {
        self.leave(over);
    }

    fn leave(&self, over: Over) {
        // First out of the map: who wakes up must not find this entry again.
        self.keys.entries().remove(&self.identity);
        self.phase.send_replace(Phase::Over(over));
        if !self.counted {
            return;
        }
        if thread::panicking() {
            // A second panic would end the process if it left here.
            panic::catch_unwind(observe::left).ok();
        } else {
            observe::left();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !matches!(*self.phase.borrow(), Phase::Over(_)) {
            self.leave(Over::Free);
        }
    }
}

/// The owner's request looking at its own task.
pub(crate) struct Progress {
    phase: watch::Receiver<Phase>,
    /// Whoever sets it first decides: the task starts the work, or the request gives up.
    decided: Arc<AtomicBool>,
}

impl Progress {
    /// Waits until the store has answered; when it did not within `limit`, gives up and returns
    /// false, and the work will not start.
    pub(crate) async fn claimed_within(&mut self, limit: Duration) -> bool {
        let answered = self
            .phase
            .wait_for(|phase| !matches!(phase, Phase::Claiming));
        match timeout(limit, answered).await {
            Ok(_) => true,
            Err(_) => self.decided.swap(true, Ordering::AcqRel),
        }
    }
}

/// What a duplicate in this process finds.
pub(crate) enum Met {
    /// The key is finished; the flag says whether this took waiting for a run.
    Finished(Arc<Finished>, bool),
    Mismatch,
    InProgress,
    Unavailable,
    /// Another process works on the same request: ask again after a while.
    Elsewhere,
    /// The owner is gone without a result: ask again.
    Again,
}

impl Occupied {
    /// Waits for the owner until `deadline`. While the owner still asks the store, nobody
    /// knows whose the key is, and `claim_limit` bounds the wait for that. That the key is
    /// in another process is news only if the owner asked after `arrived`: the other process may
    /// have answered its client in between, who then sent us.
    pub(crate) async fn meet(
        mut self,
        fingerprint: Fingerprint,
        arrived: Instant,
        deadline: Instant,
        claim_limit: Duration,
    ) -> Met {
        let claim_deadline = Instant::now() + claim_limit;
        let mut ran = false;
        loop {
            let phase = self.phase.borrow_and_update().clone();
            let until = match phase {
                Phase::Claiming => claim_deadline,
                Phase::Running if self.fingerprint != fingerprint => return Met::Mismatch,
                Phase::Running => {
                    ran = true;
                    deadline
                }
                Phase::Over(Over::Finished(finished)) => return Met::Finished(finished, ran),
                Phase::Over(Over::Elsewhere)
                    if self.fingerprint == fingerprint && self.began >= arrived =>
                {
                    return Met::Elsewhere;
                }
                Phase::Over(Over::Unavailable) => return Met::Unavailable,
                Phase::Over(Over::Elsewhere | Over::Free) => return Met::Again,
            };
            match timeout_at(until, self.phase.changed()).await {
                Ok(Ok(())) => {}
                // The ticket always says how it ended before it goes.
                Ok(Err(_)) => return Met::Again,
                Err(_) if ran => return Met::InProgress,
                Err(_) => return Met::Unavailable,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::tenant::Tenant;

    const OURS: Fingerprint = Fingerprint::from_bytes([0; 32]);
    const OTHER: Fingerprint = Fingerprint::from_bytes([1; 32]);

    fn ask(keys: &InFlight) -> Entrance {
        let identity = Identity {
            tenant: Tenant::shared(),
            scope: "payments.create".into(),
            key: Key::new("k").expect("a key"),
        };
        keys.enter(&Arc::new(identity), OURS)
    }

    fn enter_in(keys: &InFlight) -> (Ticket, Progress) {
        match ask(keys) {
            Entrance::Entered(ticket, progress) => (ticket, progress),
            Entrance::Occupied(_) => panic!("nobody else is here"),
        }
    }

    fn enter() -> (Ticket, Progress) {
        enter_in(&InFlight::default())
    }

    /// The owner, and two who find it there.
    fn occupied() -> (Ticket, [Occupied; 2]) {
        let keys = InFlight::default();
        let (ticket, _) = enter_in(&keys);
        let find = || match ask(&keys) {
            Entrance::Occupied(occupied) => occupied,
            Entrance::Entered(..) => panic!("the owner is there"),
        };
        (ticket, [find(), find()])
    }

    #[tokio::test]
    async fn that_the_same_request_is_elsewhere_is_no_news_to_another() {
        let arrived = Instant::now();
        let (ticket, [same, other]) = occupied();
        ticket.over(Over::Elsewhere);
        let same = same.meet(OURS, arrived, arrived, Duration::ZERO).await;
        assert!(matches!(same, Met::Elsewhere));
        let other = other.meet(OTHER, arrived, arrived, Duration::ZERO).await;
        assert!(matches!(other, Met::Again));
    }

    #[tokio::test]
    async fn a_store_that_is_silent_is_told_from_work_that_runs() {
        let arrived = Instant::now();
        let (ticket, [claiming, running]) = occupied();
        let silent = claiming.meet(OURS, arrived, arrived, Duration::ZERO).await;
        assert!(matches!(silent, Met::Unavailable));
        assert!(ticket.starts());
        let runs = running.meet(OURS, arrived, arrived, Duration::ZERO).await;
        assert!(matches!(runs, Met::InProgress));
    }

    #[tokio::test]
    async fn work_does_not_start_once_its_request_has_given_up() {
        let (ticket, mut progress) = enter();
        assert!(!progress.claimed_within(Duration::ZERO).await);
        assert!(!ticket.starts());
    }

    #[tokio::test]
    async fn a_request_does_not_give_up_once_its_work_has_started() {
        let (ticket, mut progress) = enter();
        assert!(ticket.starts());
        assert!(progress.claimed_within(Duration::ZERO).await);
        // Nor where it has not heard of that yet.
        let (ticket, mut progress) = enter();
        ticket.decided.store(true, Ordering::Release);
        assert!(progress.claimed_within(Duration::ZERO).await);
    }
}
