//! What must hold at any moment, and what was found that did not.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Mode;
use crate::fleet::Fleet;

/// A promise that was broken.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    what: String,
    pub(crate) after: Duration,
    keys: usize,
}

impl Violation {
    /// Which invariant it breaks.
    pub(crate) fn invariant(&self) -> &str {
        self.what.split(':').next().unwrap_or_default()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, after, keys } = self;
        write!(f, "found after {after:.1?} and {keys} keys by {what}")
    }
}

impl Fleet {
    /// Notes that an invariant is broken, which ends the run.
    pub(crate) fn violated(&self, what: impl Into<String>) {
        let violation = Violation {
            what: what.into(),
            after: self.begun.elapsed(),
            keys: self.keys.load(Ordering::Relaxed),
        };
        self.violations().push(violation);
    }

    /// The first violation.
    pub(crate) fn found(&self) -> Option<Violation> {
        self.violations().first().cloned()
    }

    /// Everything that was found, in order.
    pub(crate) fn violations(&self) -> MutexGuard<'_, Vec<Violation>> {
        let violations = self.violations.lock();
        violations.unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the database again and again until the run is over. Each question is one statement, so
    /// that it sees one moment.
    pub(crate) async fn watch(&self) {
        let broken = self.run.mode.broken(self.run.kind.is_sqlite());
        while !self.is_over() {
            let asked = Instant::now();
            {
                let _own = self.own_session.lock().await;
                let broken = self.database.pool().text(&broken).await;
                if !broken.is_empty() {
                    self.violated(broken);
                }
            }
            // A table that has grown must not make this the main load.
            let pause = (asked.elapsed() * 4).max(Duration::from_millis(50));
            tokio::time::sleep(pause).await;
        }
    }
}

impl Mode {
    /// Selects in words what does not hold, the first invariant first; empty when all is well.
    fn broken(self, sqlite: bool) -> String {
        let (payload, collation) = if sqlite {
            ("cast(payload as text)", "")
        } else {
            // The library's columns have the collation "C", the application's the default.
            ("convert_from(payload, 'UTF8')", "collate \"default\"")
        };
        let twice = "select 'I1: two effects ' || label || ' of ' || account as broken \
                     from effects group by account, label having count(*) > 1";
        let others = match self {
            Self::Atomic => format!(
                "select 'I4: ' || coalesce(effects, 0) || ' effects and ' || \
                 coalesce(records, 0) || ' records of ' || coalesce(label, key) from (\
                 select label, count(*) as effects from effects group by label) as e \
                 full join (select key {collation} as key, count(*) as records \
                 from idempotency_keys group by key) as k on key = label \
                 where coalesce(effects, 0) <> coalesce(records, 0) \
                 union all \
                 select 'I9: no message of ' || effect from (\
                 select account || '/' || label as effect from effects \
                 except select {payload} from outbox) as untold \
                 union all \
                 select 'I9: a message of no effect: ' || told from (\
                 select {payload} as told from outbox \
                 except select account || '/' || label from effects) as untrue"
            ),
            // A local transaction commits with the record of its step.
            Self::Leased => {
                let steps = format!(
                    "select tenant {collation} as account, name {collation} as label \
                     from idempotency_steps where result is not null and name <> 'charge'"
                );
                let effects = "select account, label from effects";
                format!(
                    "select 'I4: no record of the step ' || label || ' of ' || account \
                     from ({effects} except {steps}) as unrecorded \
                     union all \
                     select 'I4: no effect of the step ' || label || ' of ' || account \
                     from ({steps} except {effects}) as undone"
                )
            }
        };
        format!("select coalesce(min(broken), '') from ({twice} union all {others}) as found")
    }
}
