//! Three workers with the same request, a clock, a sweep, and an operator.
//!
//! A pause is a worker that does nothing while the others move. A transaction that writes a step
//! holds the row from its `RENEW` to its commit, and what it did shows at the commit; it may also
//! die with its session. An answer of the database may get lost after any commit.

use crate::tables::{LockedUntil, Name, Protection, State, Step, Writer};
use crate::world::{Next, Protocol, Stage, Violation, World};

const OPERATOR: Writer = 3;

/// One transition, and what it broke.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) who: &'static str,
    pub(crate) what: &'static str,
    pub(crate) world: World,
    pub(crate) broken: Vec<Violation>,
}

const NAMES: [&str; 3] = ["first", "second", "third"];

impl World {
    /// Everything that can happen next.
    pub(crate) fn moves(&self, protocol: Protocol) -> Vec<Move> {
        let mut moves = Moves {
            from: self,
            protocol,
            found: Vec::new(),
        };
        let mut idle_has_moved = false;
        // An operator takes the place of the third worker.
        let workers = if protocol.is_operated { 2 } else { 3 };
        for number in 0..workers {
            // Idle workers are alike: it is enough that the first of them moves.
            if self.workers[usize::from(number)].stage == Stage::Idle {
                if !idle_has_moved {
                    moves.of_idle(number);
                }
                idle_has_moved = true;
            } else {
                moves.of_worker(number);
            }
        }
        moves.of_others();
        moves.found
    }
}

struct Moves<'a> {
    from: &'a World,
    protocol: Protocol,
    found: Vec<Move>,
}

impl Moves<'_> {
    fn add(&mut self, who: &'static str, what: &'static str, change: impl FnOnce(&mut Next)) {
        let mut next = Next {
            world: *self.from,
            broken: Vec::new(),
        };
        change(&mut next);
        next.world.forget();
        self.found.push(Move {
            who,
            what,
            world: next.world,
            broken: next.broken,
        });
    }

    fn of_idle(&mut self, number: u8) {
        let who = NAMES[usize::from(number)];
        if let Some(writer) = self.from.replay() {
            let life = self.from.life;
            self.add(who, "REPLAY", |next| next.answer(life, writer));
        }
        let mut tables = self.from.tables;
        let Some(token) = tables
            .claim(self.from.creations + 1)
            .filter(|_| self.from.held_by.is_none())
        else {
            return;
        };
        let parks = self.protocol.reconciles && tables.steps.contains(&Step::Begun);
        let what = if parks { "CLAIM, PARK" } else { "CLAIM" };
        self.add(who, what, |next| next.claim(number, tables, token, parks));
    }

    fn of_worker(&mut self, number: u8) {
        let without = self.protocol.without;
        let who = NAMES[usize::from(number)];
        let worker = self.from.workers[usize::from(number)];
        let token = worker.token;
        let free = self.from.held_by.is_none();
        let go = |stage: Stage| move |next: &mut Next| next.go(number, stage);
        if worker.stage == Stage::Dead {
            return;
        }
        // The heartbeat; one may be late on its way when the run is over.
        if free && self.from.tables.fence(token, without) {
            self.add(who, "RENEW", |next| {
                next.world.tables.renew(token, without);
                next.owner_wrote(number);
            });
        }
        if worker.stage != Stage::Done {
            self.add(who, "crash", go(Stage::Dead));
        }
        match worker.stage {
            Stage::Charge => {
                self.opens(number, Stage::BeginsCharge);
                self.add(who, "fails", go(Stage::Release));
            }
            Stage::BeginsCharge => self.commits(number, Name::Charge, Stage::Calls),
            Stage::Calls => {
                self.add(who, "calls", |next| next.call(number));
                self.add(who, "fails", go(Stage::Release));
            }
            Stage::Called => {
                self.opens(number, Stage::RecordsCharge);
                self.add(who, "fails", go(Stage::Release));
            }
            Stage::RecordsCharge => self.commits(number, Name::Charge, worker.after_charge()),
            Stage::Reserve => {
                self.opens(number, Stage::RecordsReserve);
                self.add(who, "fails", go(Stage::Release));
            }
            Stage::RecordsReserve => self.commits(number, Name::Reserve, Stage::Finish),
            Stage::Finish if free => self.finishes(number),
            Stage::Release if free => {
                let mut tables = self.from.tables;
                if tables.release(token, without) {
                    self.add(who, "RELEASE", |next| {
                        next.world.tables = tables;
                        next.owner_wrote(number);
                        next.world.owner = None;
                        next.go(number, Stage::Done);
                    });
                } else {
                    self.add(who, "RELEASE refused", go(Stage::NotOurs));
                }
            }
            Stage::Answer => self.add(who, "answers", |next| {
                next.answer(worker.life, number);
                next.go(number, Stage::Done);
            }),
            Stage::NotOurs => match self.from.replay() {
                Some(writer) => {
                    let life = self.from.life;
                    self.add(who, "answers for its successor", |next| {
                        next.answer(life, writer);
                        next.go(number, Stage::Done);
                    });
                }
                None => self.add(who, "answers 409", go(Stage::Done)),
            },
            Stage::Idle | Stage::Finish | Stage::Release | Stage::Done | Stage::Dead => {}
        }
    }

    /// `RENEW` in a transaction that will write a step: the row is held until the commit.
    fn opens(&mut self, number: u8, stage: Stage) {
        let who = NAMES[usize::from(number)];
        let Protocol { without, .. } = self.protocol;
        let token = self.from.workers[usize::from(number)].token;
        let unfenced = stage != Stage::BeginsCharge && lacks_step_fence(without);
        if self.from.held_by.is_some() {
            return;
        }
        if self.from.tables.fence(token, without) {
            self.add(who, "RENEW in a step", |next| {
                next.world.held_by = Some(number);
                next.go(number, stage);
            });
        } else if unfenced {
            self.add(who, "no RENEW in a step", |next| next.go(number, stage));
        } else {
            self.loses(number, "RENEW in a step refused");
        }
    }

    /// `BEGIN_STEP` or `END_STEP`, and the commit.
    fn commits(&mut self, number: u8, name: Name, then: Stage) {
        let who = NAMES[usize::from(number)];
        let Protocol { without, .. } = self.protocol;
        let worker = self.from.workers[usize::from(number)];
        let holds = self.from.held_by == Some(number);
        let begins = worker.stage == Stage::BeginsCharge;
        let mut tables = self.from.tables;
        if holds {
            tables.renew(worker.token, without);
        }
        let (passes, what, lost) = if begins {
            (tables.begin_step(name), "BEGIN_STEP", "BEGIN_STEP, error")
        } else {
            (
                tables.end_step(name, without),
                "END_STEP",
                "END_STEP, error",
            )
        };
        // Who has called says once more that it did, when it gets no answer; and who is about to.
        let calls = worker.stage == Stage::RecordsCharge;
        if !passes && calls && holds {
            self.add(who, "END_STEP once more", |next| {
                next.world.tables = tables;
                next.found_recorded(number);
                next.go(number, then);
            });
            return;
        }
        if !passes && begins && holds {
            self.add(who, "BEGIN_STEP once more", |next| {
                next.world.tables = tables;
                next.go(number, then);
            });
            return;
        }
        if !passes {
            self.loses(number, "step refused");
            return;
        }
        let before = if begins { Stage::Charge } else { Stage::Called };
        let again = (calls || begins).then_some((lost, before));
        for (what, stage) in [(what, then), (lost, Stage::Release)]
            .into_iter()
            .chain(again)
        {
            self.add(who, what, |next| {
                next.world.tables = tables;
                next.owner_wrote(number);
                if begins {
                    next.begun(worker.life, name);
                } else {
                    next.recorded(number, name);
                }
                next.go(number, stage);
            });
        }
        if holds {
            self.add(who, "session ends", |next| next.go(number, Stage::Release));
        }
        if holds && (calls || begins) {
            self.add(who, "session ends", |next| next.go(number, before));
        }
    }

    fn finishes(&mut self, number: u8) {
        let who = NAMES[usize::from(number)];
        let Protocol { without, .. } = self.protocol;
        let token = self.from.workers[usize::from(number)].token;
        let mut tables = self.from.tables;
        if tables.finish(token, number, without) {
            // Without an answer the owner says it once more, and knows its own row by the token.
            for (what, stage) in [("FINISH", Stage::Answer), ("FINISH, error", Stage::Finish)] {
                self.add(who, what, |next| {
                    next.world.tables = tables;
                    next.owner_wrote(number);
                    next.stored(number);
                    next.go(number, stage);
                });
            }
            return;
        }
        let wrote = tables
            .key
            .is_some_and(|row| row.token == token && matches!(row.state, State::Finished(_)));
        let stage = if wrote { Stage::Answer } else { Stage::NotOurs };
        self.add(who, "FINISH refused", |next| next.go(number, stage));
    }

    /// A handler that is told of its lost lease may fail, or may answer all the same.
    fn loses(&mut self, number: u8, what: &'static str) {
        let who = NAMES[usize::from(number)];
        for stage in [Stage::Finish, Stage::Release] {
            self.add(who, what, |next| next.go(number, stage));
        }
    }

    fn of_others(&mut self) {
        let world = *self.from;
        let Some(row) = world.tables.key else {
            return;
        };
        if row.locked_until == LockedUntil::Later {
            self.add("clock", "lease is over", |next| {
                if let Some(row) = &mut next.world.tables.key {
                    row.locked_until = LockedUntil::Passed;
                }
            });
        } else if !row.expired && row.state != State::Parked {
            // The ttl begins when the lease ends.
            self.add("clock", "ttl is over", |next| {
                if let Some(row) = &mut next.world.tables.key {
                    row.expired = true;
                }
            });
        }
        if world.held_by.is_some() {
            return;
        }
        let mut tables = world.tables;
        if tables.sweep() {
            self.add("sweep", "SWEEP", |next| {
                next.world.tables = tables;
                next.world.life += 1;
                next.world.owner = None;
            });
        }
        if !self.protocol.is_operated || world.is_settled || row.expired {
            return;
        }
        for (what, outcome) in [("SETTLE free", None), ("SETTLE done", Some(OPERATOR))] {
            let mut tables = world.tables;
            if tables.settle(outcome, self.protocol.without) {
                self.add("operator", what, |next| {
                    next.world.tables = tables;
                    next.world.is_settled = true;
                    next.world.owner = None;
                    if let Some(writer) = outcome {
                        next.stored(writer);
                    }
                });
            }
        }
    }
}

fn lacks_step_fence(without: Option<Protection>) -> bool {
    matches!(
        without,
        Some(Protection::StepFence | Protection::StepFenceAndFirstResult)
    )
}
