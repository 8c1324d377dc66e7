//! The applications that do what the model says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use idem_tests::client::Pending;
use idem_tests::{Answer, Kind, TestApp};
use proptest_state_machine::StateMachineTest;
use tokio::runtime::Runtime;

use super::model::{Command, Expected, Machine, Model, Name, Outcome};

/// Two applications on one database, and what their clients remember.
pub(super) struct System {
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
