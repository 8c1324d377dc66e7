//! What the answers, the effects, and the records must be, without a database.

use std::collections::BTreeMap;

use idem_tests::Kind;
use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Created,
    Declined,
    Unavailable,
    Panic,
}

impl Outcome {
    pub(super) fn is_kept(self) -> bool {
        matches!(self, Self::Created | Self::Declined)
    }

    pub(super) fn status(self) -> u16 {
        match self {
            Self::Created => 201,
            Self::Declined => 402,
            Self::Unavailable => 503,
            Self::Panic => 500,
        }
    }
}

/// Tenant and key.
pub(super) type Name = (&'static str, &'static str);

#[derive(Clone, Debug)]
pub(super) enum Command {
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
pub(super) enum Expected {
    Nothing,
    Held,
    Executed(Outcome),
    Replayed,
    InProgress,
    Mismatch,
    Swept(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) body: &'static str,
    pub(super) expired: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: Name,
    pub(super) body: &'static str,
    /// Its session is gone.
    pub(super) doomed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) kind: Kind,
    pub(super) holding: bool,
    pub(super) running: Vec<Run>,
    pub(super) records: BTreeMap<Name, Record>,
    pub(super) effects: usize,
    pub(super) expected: Expected,
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
pub(super) struct Machine<const KIND: usize>;

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
