//! The two tables for one key, and the statements of `store/lease/statements.rs` on them.
//!
//! | transition | changes | only where (the SQL's condition) |
//! |---|---|---|
//! | `CLAIM` | a new row, or `attempt = attempt + 1`; `locked_until = now + lease` | no row, or `state <> 4 and (locked_until is null or locked_until <= now) and (expires_at <= now or state = 1)` |
//! | `CLEAR_STEPS` | no steps | in the transaction of a `CLAIM` that returned attempt 1 |
//! | *the fence* | | `attempt = $4 and created = $5 and state = 1 and locked_until is not null` |
//! | `RENEW` | `locked_until = now + lease`, `expires_at` later; locks the row | the fence |
//! | `FINISH` | `state = 2`, the response, `locked_until = null` | the fence |
//! | `RELEASE` | `locked_until = null` | the fence |
//! | `FORGET` | no row | after `RELEASE`: `attempt = $4 and created = $5 and state = 1 and locked_until is null and not exists (steps)` |
//! | `PARK` | `state = 4, locked_until = null` | the fence |
//! | `BEGIN_STEP` | a step without result | after `RENEW`: no such step, or `result is null` |
//! | `END_STEP` | its result | after `RENEW`: no such step, or `result is null` |
//! | `SETTLE` | `attempt = attempt + 1, locked_until = null`, free or finished | `state in (1, 4) and (locked_until is null or locked_until <= now)` |
//! | `CLEAR_BEGUN` | no unfinished steps | in the transaction of a `SETTLE` that frees the key |
//! | `SWEEP` | no row, no steps | `expires_at <= now and state <> 4`, and no live lease |
//!
//! All requests are the same one here: a fingerprint changes nothing about who owns a key.

/// Something that a broken protocol lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// The fence of `FINISH`.
    FinishFence,
    /// The fence of `RELEASE`.
    ReleaseFence,
    /// The `RENEW` in front of `END_STEP`.
    StepFence,
    /// That, and `where s.result is null`.
    StepFenceAndFirstResult,
    /// `created = $5`, in every fence.
    CreatedInFence,
    /// `locked_until is not null`, in every fence.
    HeldInFence,
    /// `attempt = attempt + 1`, in `SETTLE`.
    AttemptOfSettle,
}

/// Whose outcome a response is: a worker's, by its number, or an operator's.
pub(crate) type Writer = u8;

/// The fencing token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    pub(crate) attempt: u8,
    /// The instant of creation: a number of its own for each.
    pub(crate) created: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    InProgress,
    Finished(Writer),
    Parked,
}

/// `locked_until`, as the database's clock sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockedUntil {
    Null,
    Later,
    Passed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) token: Token,
    pub(crate) state: State,
    pub(crate) locked_until: LockedUntil,
    /// `expires_at <= now`.
    pub(crate) expired: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    #[default]
    Absent,
    Begun,
    Recorded,
}

/// The steps of the run: a call to another service, then local writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Charge,
    Reserve,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tables {
    pub(crate) key: Option<Row>,
    pub(crate) steps: [Step; 2],
}

impl Tables {
    /// Returns the token when the key is claimed or taken over. The instant is the one that a new
    /// row gets.
    pub(crate) fn claim(&mut self, instant: u8) -> Option<Token> {
        let new = Token {
            attempt: 1,
            created: instant,
        };
        let token = match self.key {
            None => new,
            Some(row) => {
                let held = row.locked_until == LockedUntil::Later;
                let over = row.expired || row.state == State::InProgress;
                if row.state == State::Parked || held || !over {
                    return None;
                }
                if row.expired {
                    new
                } else {
                    Token {
                        attempt: row.token.attempt + 1,
                        ..row.token
                    }
                }
            }
        };
        self.key = Some(Row {
            token,
            state: State::InProgress,
            locked_until: LockedUntil::Later,
            expired: false,
        });
        if token.attempt == 1 {
            self.steps = [Step::Absent; 2];
        }
        Some(token)
    }

    /// Whether the fence lets an owner's statement through.
    pub(crate) fn fence(self, token: Token, without: Option<Protection>) -> bool {
        self.key.is_some_and(|row| {
            row.names(token, without)
                && (row.locked_until != LockedUntil::Null
                    || without == Some(Protection::HeldInFence))
        })
    }

    /// The row of the key, if the fence lets this owner's statement through.
    fn fenced(
        &mut self,
        token: Token,
        without: Option<Protection>,
        own_fence: Protection,
    ) -> Option<&mut Row> {
        let passes = without == Some(own_fence) || self.fence(token, without);
        self.key.as_mut().filter(|_| passes)
    }

    pub(crate) fn renew(&mut self, token: Token, without: Option<Protection>) -> bool {
        let passes = self.fence(token, without);
        if let Some(row) = self.key.as_mut().filter(|_| passes) {
            row.locked_until = LockedUntil::Later;
            row.expired = false;
        }
        passes
    }

    pub(crate) fn finish(
        &mut self,
        token: Token,
        writer: Writer,
        without: Option<Protection>,
    ) -> bool {
        let Some(row) = self.fenced(token, without, Protection::FinishFence) else {
            return false;
        };
        row.state = State::Finished(writer);
        row.locked_until = LockedUntil::Null;
        row.expired = false;
        true
    }

    /// `RELEASE`, then `FORGET`.
    pub(crate) fn release(&mut self, token: Token, without: Option<Protection>) -> bool {
        let Some(row) = self.fenced(token, without, Protection::ReleaseFence) else {
            return false;
        };
        row.locked_until = LockedUntil::Null;
        let ours = row.names(token, without);
        if ours && self.steps == [Step::Absent; 2] {
            self.key = None;
        }
        true
    }

    /// In the transaction of the claim, so that the fence always passes.
    pub(crate) fn park(&mut self) {
        if let Some(row) = &mut self.key {
            row.state = State::Parked;
            row.locked_until = LockedUntil::Null;
        }
    }

    pub(crate) fn begin_step(&mut self, name: Name) -> bool {
        self.write_step(name, Step::Begun, false)
    }

    pub(crate) fn end_step(&mut self, name: Name, without: Option<Protection>) -> bool {
        let replaces = without == Some(Protection::StepFenceAndFirstResult);
        self.write_step(name, Step::Recorded, replaces)
    }

    fn write_step(&mut self, name: Name, written: Step, replaces: bool) -> bool {
        let step = &mut self.steps[name as usize];
        let passes = *step != Step::Recorded || replaces;
        if passes {
            *step = written;
        }
        passes
    }

    /// An operator frees the key (`None`), or says its outcome.
    pub(crate) fn settle(&mut self, outcome: Option<Writer>, without: Option<Protection>) -> bool {
        let Some(row) = &mut self.key else {
            return false;
        };
        let open = matches!(row.state, State::InProgress | State::Parked);
        if !open || row.locked_until == LockedUntil::Later {
            return false;
        }
        row.state = outcome.map_or(State::InProgress, State::Finished);
        row.locked_until = LockedUntil::Null;
        row.expired = false;
        if without != Some(Protection::AttemptOfSettle) {
            row.token.attempt += 1;
        }
        if outcome.is_none() {
            for step in &mut self.steps {
                if *step == Step::Begun {
                    *step = Step::Absent;
                }
            }
        }
        true
    }

    pub(crate) fn sweep(&mut self) -> bool {
        let over = self.key.is_some_and(|row| {
            row.expired && row.state != State::Parked && row.locked_until != LockedUntil::Later
        });
        if over {
            *self = Self::default();
        }
        over
    }
}

impl Row {
    fn names(self, token: Token, without: Option<Protection>) -> bool {
        self.token.attempt == token.attempt
            && (self.token.created == token.created || without == Some(Protection::CreatedInFence))
            && self.state == State::InProgress
    }
}
