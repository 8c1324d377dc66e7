//! Duplicates from many clients, some of which leave, to processes and sessions that are killed all
//! the time; then an audit of what clients, effects, records, and sessions say.
//!
//! `IDEM_CHAOS_SECONDS` says how long each run takes, `IDEM_CHAOS_BUG` which bug alone is sought. The audit must also find something: servers
//! with bugs in them, which `scripts/test` builds, are run in the same way.

mod audit;
mod clients;
mod fleet;

use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use audit::Report;
use fleet::Fleet;
use idem_tests::database::Kind;

/// How the servers keep their promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Atomic,
    Leased,
}

impl Mode {
    /// The name of the servers' program.
    fn program(self) -> &'static str {
        match self {
            Self::Atomic => "idem-test-server",
            Self::Leased => "idem-order-server",
        }
    }
}

/// A run of the harness.
#[derive(Clone, Debug)]
struct Run {
    mode: Mode,
    kind: Kind,
    processes: usize,
    program: PathBuf,
    bug: &'static str,
    limit: Duration,
}

impl Run {
    fn new(mode: Mode, kind: Kind, processes: usize) -> Self {
        let seconds = env::var("IDEM_CHAOS_SECONDS").ok();
        let seconds = seconds.map_or(20, |seconds| seconds.parse().expect("a number of seconds"));
        let program = match mode {
            Mode::Atomic => env!("CARGO_BIN_EXE_idem-test-server"),
            Mode::Leased => env!("CARGO_BIN_EXE_idem-order-server"),
        };
        Self {
            mode,
            kind,
            processes,
            program: program.into(),
            bug: "",
            limit: Duration::from_secs(seconds),
        }
    }

    /// The same with a server that has a bug.
    #[cfg_attr(not(feature = "seeded-bugs"), allow(dead_code))]
    fn with_bug(self, bug: &'static str) -> Self {
        let folder = env::var_os("IDEM_SEEDED_SERVERS");
        let folder =
            PathBuf::from(folder.expect("IDEM_SEEDED_SERVERS is not set: run scripts/test"));
        Self {
            program: folder.join(self.mode.program()),
            bug,
            limit: self.limit / 2,
            ..self
        }
    }

    /// Runs clients and kills until the time is over, and audits.
    async fn report(self) -> Report {
        let fleet = Arc::new(Fleet::start(self.clone()).await);
        let (tallies, ()) = tokio::join!(clients::run(&fleet), fleet.kill_until_over());
        audit::audit(&fleet, tallies).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_crash_repeats_or_loses_an_effect_on_postgres() {
    let run = Run::new(Mode::Atomic, Kind::Postgres, 3);
    run.report().await.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "takes long: run scripts/test"
)]
async fn no_crash_repeats_or_loses_an_effect_on_sqlite() {
    let run = Run::new(Mode::Atomic, Kind::Sqlite, 1);
    run.report().await.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_crash_repeats_or_loses_a_leased_order() {
    let run = Run::new(Mode::Leased, Kind::Postgres, 3);
    run.report().await.assert_clean();
}

/// Each bug would break a promise, and each is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "seeded-bugs"),
    ignore = "needs servers with bugs: run scripts/test"
)]
async fn every_seeded_bug_is_found() {
    let only = env::var("IDEM_CHAOS_BUG").ok();
    for (mode, bug, invariant) in [
        (Mode::Atomic, "store_after_commit", "I1"),
        (Mode::Atomic, "check_then_insert", "I1"),
        (Mode::Atomic, "answer_before_commit", "I3"),
        (Mode::Atomic, "tenant_left_out", "I6"),
        (Mode::Atomic, "fingerprint_of_nothing", "I5"),
        (Mode::Leased, "no_fence", "I2"),
        (Mode::Leased, "release_without_fence", "I1"),
    ] {
        if only.as_ref().is_some_and(|only| only != bug) {
            continue;
        }
        let run = Run::new(mode, Kind::Postgres, 3).with_bug(bug);
        let mut found = false;
        // It is chance that brings a bug to light: two halves of a run, and as much again.
        for _ in 0..4 {
            found = run.clone().report().await.finds(invariant);
            if found {
                break;
            }
        }
        assert!(found, "the bug {bug} breaks {invariant} and was not found");
    }
}
