//! Random sequences of everything that can happen to a few keys, against a model that knows nothing
//! of databases: after each command the answer, the effects, and the records are the model's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use idem_tests::client::Pending;
use idem_tests::{Answer, Kind, TestApp};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tokio::runtime::Runtime;

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Created,
    Declined,
    Unavailable,
    Panic,
}

impl Outcome {
    fn is_kept(self) -> bool {
        matches!(self, Self::Created | Self::Declined)
    }

    fn status(self) -> u16 {
        match self {
            Self::Created => 201,
            Self::Declined => 402,
            Self::Unavailable => 503,
            Self::Panic => 500,
        }
    }
}

/// Tenant and key.
type Name = (&'static str, &'static str);

#[derive(Clone, Debug)]
enum Command {
    /// A request; `elsewhere` is another process, whose handlers are never held.
    Send {
        name: Name,
        body: &'static str,
        elsewhere: bool,
        outcome: Outcome,
    },
    /// Holds every handler that starts from now on.
    Hold,
    /// Lets them go, to this end.
    Finish(Outcome),
    /// The database ends every session.
    Crash,
    /// Every record is past its ttl.
    Expire,
    Sweep,
}

/// What the command before must have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Nothing,
    Held,
    Executed(Outcome),
    Replayed,
    InProgress,
    Mismatch,
    Swept(u64),
}

#[derive(Clone, Debug)]
struct Record {
    body: &'static str,
    expired: bool,
}

#[derive(Clone, Debug)]
struct Run {
    name: Name,
    body: &'static str,
    /// Its session is gone.
    doomed: bool,
}

#[derive(Clone, Debug)]
struct Model {
    kind: Kind,
    holding: bool,
    running: Vec<Run>,
    records: BTreeMap<Name, Record>,
    effects: usize,
    expected: Expected,
}

/// As many as the application has connections, less one for the others.
const MOST_RUNS: usize = 3;

impl Model {
    fn decide(&self, name: Name, body: &str, elsewhere: bool) -> Expected {
        // Another process sees of a run only what its session holds.
        let run = self
            .running
            .iter()
            .find(|run| run.name == name && !(elsewhere && run.doomed));
        if let Some(run) = run {
            return if run.body == body {
                Expected::InProgress
            } else {
                Expected::Mismatch
            };
        }
        match self.records.get(&name) {
            Some(record) if !record.expired && record.body == body => Expected::Replayed,
            Some(record) if !record.expired => Expected::Mismatch,
            _ if self.holding && !elsewhere => Expected::Held,
            _ => Expected::Executed(Outcome::Created),
        }
    }

    fn finish(&mut self, name: Name, body: &'static str, outcome: Outcome) {
        if outcome.is_kept() {
            let expired = false;
            self.records.insert(name, Record { body, expired });
            self.effects += usize::from(outcome == Outcome::Created);
        }
    }
}

/// The model of one kind of database, by its place in [`KINDS`].
struct Machine<const KIND: usize>;

/// In memory there is one connection only, so nobody could look while a handler has it.
const KINDS: [Kind; 2] = [Kind::Postgres, Kind::Sqlite];

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Created),
        2 => Just(Outcome::Declined),
        1 => Just(Outcome::Unavailable),
        1 => Just(Outcome::Panic),
    ]
}

impl<const KIND: usize> ReferenceStateMachine for Machine<KIND> {
    type State = Model;
    type Transition = Command;

    fn init_state() -> BoxedStrategy<Model> {
        let model = Model {
            kind: KINDS[KIND],
            holding: false,
            running: Vec::new(),
            records: BTreeMap::new(),
            effects: 0,
            expected: Expected::Nothing,
        };
        Just(model).boxed()
    }

    fn transitions(_: &Model) -> BoxedStrategy<Command> {
        let name = (
            prop::sample::select(vec!["alice", "bob"]),
            prop::sample::select(vec!["k", "l"]),
        );
        let body = prop_oneof![4 => Just("ours"), 1 => Just("theirs")];
        let send = (name, body, any::<bool>(), outcome());
        let send = send.prop_map(|(name, body, elsewhere, outcome)| Command::Send {
            name,
            body,
            elsewhere,
            outcome,
        });
        prop_oneof![
            10 => send,
            2 => Just(Command::Hold),
            2 => outcome().prop_map(Command::Finish),
            1 => Just(Command::Crash),
            1 => Just(Command::Expire),
            1 => Just(Command::Sweep),
        ]
        .boxed()
    }

    fn preconditions(model: &Model, command: &Command) -> bool {
        // A writer that waits for the only writer would only prove that it waits.
        let busy = model.kind.is_sqlite() && !model.running.is_empty();
        match command {
            Command::Send {
                name,
                body,
                elsewhere,
                ..
            } => match model.decide(*name, body, *elsewhere) {
                Expected::Held => !busy && model.running.len() < MOST_RUNS,
                Expected::InProgress | Expected::Mismatch if *elsewhere => !busy,
                Expected::Executed(_) => !busy,
                _ => true,
            },
            Command::Crash => model.kind == Kind::Postgres,
            Command::Expire | Command::Sweep => !busy,
            Command::Hold | Command::Finish(_) => true,
        }
    }

    fn apply(mut model: Model, command: &Command) -> Model {
        model.expected = Expected::Nothing;
        match *command {
            Command::Send {
                name,
                body,
                elsewhere,
                outcome,
            } => {
                model.expected = match model.decide(name, body, elsewhere) {
                    Expected::Executed(_) => {
                        model.finish(name, body, outcome);
                        Expected::Executed(outcome)
                    }
                    Expected::Held => {
                        let doomed = false;
                        model.running.push(Run { name, body, doomed });
                        Expected::Held
                    }
                    other => other,
                };
            }
            Command::Hold => model.holding = true,
            Command::Finish(outcome) => {
                model.holding = false;
                for run in std::mem::take(&mut model.running) {
                    if !run.doomed {
                        model.finish(run.name, run.body, outcome);
                    }
                }
            }
            Command::Crash => {
                for run in &mut model.running {
                    run.doomed = true;
                }
            }
            Command::Expire => {
                for record in model.records.values_mut() {
                    record.expired = true;
                }
            }
            Command::Sweep => {
                let before = model.records.len();
                model.records.retain(|_, record| !record.expired);
                let swept = before - model.records.len();
                model.expected = Expected::Swept(swept.try_into().expect("a few"));
            }
        }
        model
    }
}

/// Two applications on one database, and what their clients remember.
struct System {
    // Dropped before the runtime that it needs.
    here: TestApp,
    there: TestApp,
    pending: Vec<(Name, Pending)>,
    doomed: Vec<Name>,
    kept: HashMap<Name, Answer>,
    answers: Arc<AtomicUsize>,
    runtime: Runtime,
}

impl System {
    fn answer(&self, outcome: Outcome) {
        for app in [&self.here, &self.there] {
            let answers = Arc::clone(&self.answers);
            app.script.answer(move || {
                assert!(outcome != Outcome::Panic, "on purpose");
                let number = answers.fetch_add(1, Ordering::Relaxed);
                let status = StatusCode::from_u16(outcome.status()).expect("a status");
                (status, number.to_string())
            });
        }
    }

    fn keep(&mut self, name: Name, answer: Answer, status: u16, kept: bool) {
        assert_eq!(answer.status, status, "{name:?}: {answer:?}");
        assert!(!answer.is_replay(), "{name:?}: {answer:?}");
        if kept {
            self.kept.insert(name, answer);
        }
    }
}

impl<const KIND: usize> StateMachineTest for Machine<KIND> {
    type SystemUnderTest = System;
    type Reference = Self;

    fn init_test(model: &Model) -> System {
        let runtime = Runtime::new().expect("a runtime");
        let here = runtime.block_on(TestApp::start(model.kind));
        let there = runtime.block_on(here.beside());
        System {
            here,
            there,
            pending: Vec::new(),
            doomed: Vec::new(),
            kept: HashMap::new(),
            answers: Arc::default(),
            runtime,
        }
    }

    fn apply(mut system: System, model: &Model, command: Command) -> System {
        let handle = system.runtime.handle().clone();
        match command {
            Command::Send {
                name,
                body,
                elsewhere,
                outcome,
            } => {
                let app = if elsewhere {
                    &system.there
                } else {
                    &system.here
                };
                let sessions = model.running.iter().filter(|run| !run.doomed).count();
                let earlier = sessions - usize::from(model.expected == Expected::Held);
                handle.block_on(until_open(&system.here, earlier));
                let (tenant, key) = name;
                let request = app.post("/effects").account(tenant).key(key).body(body);
                if model.expected == Expected::Held {
                    let gate = &system.here.script.gate;
                    let others = gate.arrived();
                    let _entered = handle.enter();
                    let pending = request.start();
                    handle.block_on(gate.until_arrived(others + 1));
                    system.pending.push((name, pending));
                    return system;
                }
                system.answer(outcome);
                let answer = handle.block_on(request.into_future());
                match model.expected {
                    Expected::Executed(outcome) => {
                        system.keep(name, answer, outcome.status(), outcome.is_kept());
                    }
                    Expected::Replayed => answer.assert_replays(&system.kept[&name]),
                    Expected::InProgress => answer.assert_refused(409, "in-progress"),
                    Expected::Mismatch => answer.assert_refused(422, "request-mismatch"),
                    other => panic!("{other:?}"),
                }
            }
            Command::Hold => system.here.script.gate.close(),
            Command::Finish(outcome) => {
                system.answer(outcome);
                system.here.script.gate.open();
                for (name, pending) in std::mem::take(&mut system.pending) {
                    let answer = handle.block_on(pending.answer());
                    let doomed = system.doomed.contains(&name);
                    // Without its session only a panic is what it would have been.
                    let status = if doomed && outcome != Outcome::Panic {
                        503
                    } else {
                        outcome.status()
                    };
                    system.keep(name, answer, status, outcome.is_kept() && !doomed);
                }
                system.doomed.clear();
            }
            Command::Crash => {
                handle.block_on(system.here.end_sessions());
                handle.block_on(system.here.until_no_transaction_is_open());
                system.doomed = system.pending.iter().map(|(name, _)| *name).collect();
            }
            Command::Expire => handle.block_on(system.here.expire_keys()),
            Command::Sweep => {
                let swept = handle.block_on(system.here.handle.sweep());
                let swept = swept.expect("the sweep works");
                assert_eq!(Expected::Swept(swept), model.expected);
            }
        }
        system
    }

    fn check_invariants(system: &System, model: &Model) {
        let counted = async { (system.here.effects().await, system.here.keys().await) };
        let (effects, keys) = system.runtime.block_on(counted);
        let count = |number: usize| i64::try_from(number).expect("a few");
        assert_eq!(effects, count(model.effects), "effects");
        assert_eq!(keys, count(model.records.len()), "records");
    }

    fn teardown(system: System, _: Model) {
        system.here.script.gate.open();
        for (_, pending) in system.pending {
            system.runtime.block_on(pending.answer_if_any());
        }
    }
}

/// Waits until no more than these transactions are open: one that only looked at a key is rolled
/// back behind its answer, and until then its lock says that the request is in flight.
async fn until_open(app: &TestApp, transactions: usize) {
    let open = "select count(*) from pg_stat_activity where datname = current_database() \
                and xact_start is not null and pid <> pg_backend_pid()";
    let most = i64::try_from(transactions).expect("a few");
    while app.kind == Kind::Postgres && app.database.number(open).await > most {
        tokio::task::yield_now().await;
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 24,
        failure_persistence: None,
        max_shrink_iters: 100,
        ..ProptestConfig::default()
    }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    #[cfg_attr(
        not(feature = "postgres-server"),
        ignore = "needs PostgreSQL: run scripts/test"
    )]
    fn every_sequence_is_the_models_on_postgres(sequential 1..30 => Machine<0>);

    #[test]
    fn every_sequence_is_the_models_on_sqlite(sequential 1..30 => Machine<1>);
}
