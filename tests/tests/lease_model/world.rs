//! The world that the workers share, what has happened in it, and what must hold.

use crate::tables::{Name, Protection, State, Step, Tables, Token, Writer};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Protocol {
    pub(crate) without: Option<Protection>,
    /// `on_takeover = "reconcile"`.
    pub(crate) reconciles: bool,
    /// Whether an operator settles the key, once, beside two workers.
    pub(crate) is_operated: bool,
}

/// What must never be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    /// An owner that another one, an operator, or itself had followed changed something.
    StaleOwnerWrites,
    /// Two outcomes were stored under one key.
    TwoOutcomes,
    /// A client got a 2xx that is not what is stored.
    AnswerIsNotStored,
    /// Two clients got different answers of 2xx.
    TwoAnswers,
    /// A step was begun after its result was recorded.
    StepRunsAgain,
    /// A step's result was recorded over another one.
    TwoResults,
    /// A worker took another's result for its own.
    ForeignResult,
    /// The local writes of a transaction step were committed twice.
    LocalWritesTwice,
    /// The other service was called twice: not promised under `on_takeover = "resume"`.
    CalledTwice,
}

/// Where a worker stands: before what it does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    #[default]
    Idle,
    Charge,
    /// In a transaction that holds the row.
    BeginsCharge,
    Calls,
    Called,
    /// In a transaction that holds the row.
    RecordsCharge,
    Reserve,
    /// In a transaction that holds the row.
    RecordsReserve,
    Finish,
    Release,
    Answer,
    /// Reads what its successor stored.
    NotOurs,
    Done,
    Dead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) stage: Stage,
    pub(crate) token: Token,
    pub(crate) life: u8,
    /// Whether the claim found the result of `Name::Reserve`.
    knows_reserve: bool,
}

/// What has happened in one life of the key, from its claim to its ttl.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Life {
    stored: Option<Writer>,
    answered: Option<Writer>,
    called: bool,
    /// Who has recorded a step.
    recorded: [Option<Writer>; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) tables: Tables,
    pub(crate) workers: [Worker; 3],
    /// Whose transaction holds the row.
    pub(crate) held_by: Option<u8>,
    pub(crate) is_settled: bool,
    /// Who was last to claim the key, until it gives the key up or another decides about it.
    pub(crate) owner: Option<u8>,
    pub(crate) creations: u8,
    pub(crate) life: u8,
    lives: [Life; 4],
}

impl World {
    /// Forgets what can make no difference any more, so that fewer worlds are looked at.
    pub(crate) fn forget(&mut self) {
        let mut matters = [false; 4];
        matters[usize::from(self.life)] = true;
        for worker in &mut self.workers {
            match worker.stage {
                Stage::Idle => {}
                Stage::Dead => {
                    *worker = Worker {
                        stage: Stage::Dead,
                        ..Worker::default()
                    };
                }
                // Of a run that is over, only a heartbeat that is late.
                Stage::Done | Stage::NotOurs => {
                    worker.life = 0;
                    worker.knows_reserve = false;
                }
                _ => matters[usize::from(worker.life)] = true,
            }
        }
        for (life, matters) in self.lives.iter_mut().zip(matters) {
            if !matters {
                *life = Life::default();
            }
        }
    }

    /// The outcome that a client finds under the key.
    pub(crate) fn replay(&self) -> Option<Writer> {
        match self.tables.key {
            Some(row) if !row.expired => match row.state {
                State::Finished(writer) => Some(writer),
                State::InProgress | State::Parked => None,
            },
            _ => None,
        }
    }
}

impl Worker {
    pub(crate) fn after_charge(self) -> Stage {
        if self.knows_reserve {
            Stage::Finish
        } else {
            Stage::Reserve
        }
    }
}

/// A world in the making.
pub(crate) struct Next {
    pub(crate) world: World,
    pub(crate) broken: Vec<Violation>,
}

impl Next {
    fn check(&mut self, is_broken: bool, violation: Violation) {
        if is_broken {
            self.broken.push(violation);
        }
    }

    /// A worker goes on; its transaction is over unless this begins one.
    pub(crate) fn go(&mut self, number: u8, stage: Stage) {
        self.world.workers[usize::from(number)].stage = stage;
        let holds = matches!(
            stage,
            Stage::BeginsCharge | Stage::RecordsCharge | Stage::RecordsReserve
        );
        if self.world.held_by == Some(number) && !holds {
            self.world.held_by = None;
        }
    }

    pub(crate) fn claim(&mut self, number: u8, tables: Tables, token: Token, parks: bool) {
        let world = &mut self.world;
        let over = world.tables.key.is_some_and(|row| row.expired);
        world.life += u8::from(over);
        world.creations = world.creations.max(token.created);
        world.tables = tables;
        world.owner = Some(number);
        let [charge, reserve] = tables.steps.map(|step| step == Step::Recorded);
        let mut worker = Worker {
            stage: Stage::Charge,
            token,
            life: world.life,
            knows_reserve: reserve,
        };
        if charge {
            worker.stage = worker.after_charge();
        }
        if parks {
            world.tables.park();
            world.owner = None;
            worker.stage = Stage::Done;
        }
        world.workers[usize::from(number)] = worker;
    }

    pub(crate) fn owner_wrote(&mut self, number: u8) {
        let stale = self.world.owner != Some(number);
        self.check(stale, Violation::StaleOwnerWrites);
    }

    fn life(&mut self, life: u8) -> &mut Life {
        &mut self.world.lives[usize::from(life)]
    }

    pub(crate) fn begun(&mut self, life: u8, name: Name) {
        let again = self.life(life).recorded[name as usize].is_some();
        self.check(again, Violation::StepRunsAgain);
    }

    pub(crate) fn recorded(&mut self, number: u8, name: Name) {
        let life = self.world.workers[usize::from(number)].life;
        let recorded = &mut self.life(life).recorded[name as usize];
        let twice = recorded.replace(number).is_some();
        let violation = match name {
            Name::Charge => Violation::TwoResults,
            Name::Reserve => Violation::LocalWritesTwice,
        };
        self.check(twice, violation);
    }

    /// The worker finds the result of its call recorded.
    pub(crate) fn found_recorded(&mut self, number: u8) {
        let life = self.world.workers[usize::from(number)].life;
        let recorded = self.life(life).recorded[Name::Charge as usize];
        self.check(recorded != Some(number), Violation::ForeignResult);
    }

    pub(crate) fn call(&mut self, number: u8) {
        let life = self.world.workers[usize::from(number)].life;
        let twice = std::mem::replace(&mut self.life(life).called, true);
        self.check(twice, Violation::CalledTwice);
        self.go(number, Stage::Called);
    }

    pub(crate) fn stored(&mut self, writer: Writer) {
        self.world.owner = None;
        let now = self.world.life;
        let before = self.life(now).stored.replace(writer);
        self.check(before.is_some(), Violation::TwoOutcomes);
    }

    pub(crate) fn answer(&mut self, life: u8, writer: Writer) {
        let stored = self.life(life).stored;
        self.check(stored != Some(writer), Violation::AnswerIsNotStored);
        let before = self.life(life).answered.replace(writer);
        let differs = before.is_some_and(|before| before != writer);
        self.check(differs, Violation::TwoAnswers);
    }
}
