//! Duplicates from many clients, some of which leave, to processes and sessions that are killed all
//! the time; then an audit of what clients, effects, records, and sessions say.
//!
//! `IDEM_CHAOS_SECONDS` says how long each run takes. The audit must also find something: servers
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

/// A run of the harness.
#[derive(Clone, Debug)]
struct Run {
    kind: Kind,
    processes: usize,
    program: PathBuf,
    bug: &'static str,
    limit: Duration,
}

impl Run {
    fn new(kind: Kind, processes: usize) -> Self {
        let seconds = env::var("IDEM_CHAOS_SECONDS").ok();
        let seconds = seconds.map_or(20, |seconds| seconds.parse().expect("a number of seconds"));
        Self {
            kind,
            processes,
            program: env!("CARGO_BIN_EXE_idem-test-server").into(),
            bug: "",
            limit: Duration::from_secs(seconds),
        }
    }

    /// The same with a server that has a bug.
    #[cfg_attr(not(feature = "seeded-bugs"), allow(dead_code))]
    fn with_bug(self, bug: &'static str) -> Self {
        let program = env::var_os("IDEM_SEEDED_SERVER");
        let program = program
            .expect("IDEM_SEEDED_SERVER is not set: run scripts/test")
            .into();
        Self {
            program,
            bug,
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
    Run::new(Kind::Postgres, 3).report().await.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "takes long: run scripts/test"
)]
async fn no_crash_repeats_or_loses_an_effect_on_sqlite() {
    Run::new(Kind::Sqlite, 1).report().await.assert_clean();
}

/// Each bug would break a promise, and each is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "seeded-bugs"),
    ignore = "needs servers with bugs: run scripts/test"
)]
async fn every_seeded_bug_is_found() {
    for (bug, invariant) in [
        ("store_after_commit", "I1"),
        ("check_then_insert", "I1"),
        ("answer_before_commit", "I3"),
        ("tenant_left_out", "I6"),
        ("fingerprint_of_nothing", "I5"),
    ] {
        let report = Run::new(Kind::Postgres, 3).with_bug(bug).report().await;
        report.assert_finds(bug, invariant);
    }
}
