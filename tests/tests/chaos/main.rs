//! Duplicates from many clients, some of which leave, to processes and sessions that are killed all
//! the time; a watch over what must hold at any moment; then an audit of what clients, effects,
//! records, and sessions say. A run stops at the first violation.
//!
//! `IDEM_CHAOS_SECONDS` says how long a run takes, `IDEM_CHAOS_BUG` which bug alone is sought. The
//! harness must also find something: servers with bugs in them, which `scripts/test` builds, are run
//! in the same way.
//!
//! | | what must hold |
//! |---|---|
//! | I1 | an effect happens once |
//! | I2 | every success of a key is the same answer |
//! | I3 | what was a success stays one: it is never lost, run again, or in progress |
//! | I4 | effects and records are there together, at any moment |
//! | I5 | no answer but the ones that a client expects |
//! | I6 | no account sees the effect of another |
//! | I7 | the dead hold no transaction |
//! | I8 | there is an answer in the end |
//! | I9 | effects and messages are there together, and each message is delivered |
//! | I10 | the run had every kind of fault in it |

mod audit;
mod clients;
mod fleet;
mod watch;

use std::env;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clients::Tally;
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

/// How long a run takes if nobody says otherwise, and within which every bug is found.
const LIMIT: Duration = Duration::from_secs(20);

/// A run of the harness.
#[derive(Clone, Debug)]
struct Run {
    mode: Mode,
    kind: Kind,
    processes: usize,
    program: PathBuf,
    bug: &'static str,
    /// From the moment on at which the servers listen.
    limit: Duration,
}

impl Run {
    fn new(mode: Mode, kind: Kind, processes: usize) -> Self {
        let seconds = env::var("IDEM_CHAOS_SECONDS").ok();
        let limit = seconds.map(|seconds| seconds.parse().expect("a number of seconds"));
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
            limit: limit.map_or(LIMIT, Duration::from_secs),
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
            limit: LIMIT,
            ..self
        }
    }

    /// Runs clients and kills until the time is over, or something is found.
    async fn run(self) -> (Arc<Fleet>, Tally) {
        let fleet = Arc::new(Fleet::start(self).await);
        let (tally, (), ()) =
            tokio::join!(clients::run(&fleet), fleet.kill_until_over(), fleet.watch());
        (fleet, tally)
    }

    /// Runs, audits, and finds nothing.
    async fn assert_clean(self) {
        let (fleet, tally) = self.run().await;
        if fleet.found().is_none() {
            audit::audit(&fleet).await;
        }
        let report = audit::report(&fleet, &tally).await;
        say(&report);
        let found: Vec<_> = fleet.violations().iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{report}\n{}", found.join("\n"));
        audit::assert_eventful(&fleet, &tally, &report);
    }
}

/// Prints, also where a test that passes prints nothing.
fn say(line: &impl Display) {
    writeln!(std::io::stderr(), "{line}").expect("standard error is open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_crash_repeats_or_loses_an_effect_on_postgres() {
    let run = Run::new(Mode::Atomic, Kind::Postgres, 3);
    run.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "takes long: run scripts/test"
)]
async fn no_crash_repeats_or_loses_an_effect_on_sqlite() {
    let run = Run::new(Mode::Atomic, Kind::Sqlite, 1);
    run.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_crash_repeats_or_loses_a_leased_order() {
    let run = Run::new(Mode::Leased, Kind::Postgres, 3);
    run.assert_clean().await;
}

/// Each bug would break a promise, and each is found within the time that a run takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "seeded-bugs"),
    ignore = "needs servers with bugs: run scripts/test"
)]
async fn every_seeded_bug_is_found() {
    let only = env::var("IDEM_CHAOS_BUG").ok();
    // With what each of them breaks: a run stops at whatever shows first.
    for (mode, bug, breaks) in [
        (
            Mode::Atomic,
            "store_after_commit",
            &["I1", "I2", "I3", "I4"][..],
        ),
        (Mode::Atomic, "check_then_insert", &["I1", "I2", "I3"]),
        (Mode::Atomic, "answer_before_commit", &["I2", "I3"]),
        (Mode::Atomic, "tenant_left_out", &["I6"]),
        (Mode::Atomic, "fingerprint_of_nothing", &["I5"]),
        (Mode::Leased, "no_fence", &["I2", "I3"]),
        (
            Mode::Leased,
            "release_without_fence",
            &["I1", "I2", "I3", "I4"],
        ),
    ] {
        if only.as_ref().is_some_and(|only| only != bug) {
            continue;
        }
        let (fleet, _) = Run::new(mode, Kind::Postgres, 3).with_bug(bug).run().await;
        let found = fleet.found().filter(|found| found.after <= LIMIT);
        let found = found.unwrap_or_else(|| panic!("{bug} was not found in {LIMIT:?}"));
        say(&format!("{bug}: {found}"));
        assert!(
            breaks.contains(&found.invariant()),
            "{bug} breaks one of {breaks:?}, and this was found: {found}"
        );
    }
}
