//! Clients that persist until they have an answer, and what they remember.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idem_tests::Answer;
use serde_json::Value;

use crate::Mode;
use crate::fleet::{Fleet, random};

/// How many there are. A leased order takes its time, and many wait for a lease to be over.
const fn clients(mode: Mode) -> usize {
    match mode {
        Mode::Atomic => 6,
        Mode::Leased => 12,
    }
}

/// Two accounts that use the same keys for the same requests, at the same time.
const ACCOUNTS: [&str; 2] = ["alice", "bob"];

/// How many duplicates of a request are on their way at once, more than one to some process.
const DUPLICATES: usize = 4;

/// How far back a client looks that asks for an old answer.
const RECENT: usize = 50;

/// How long a client goes on asking.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a key is used for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// By those who made it.
    Ours,
    /// By somebody else.
    Theirs,
}

impl Body {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Ours => r#"{ "card": "card_ok" }"#,
            Self::Theirs => r#"{ "card": "card_slow" }"#,
        }
    }
}

/// What clients saw, all together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) tries: usize,
    pub(crate) replays: usize,
    pub(crate) take_overs: usize,
    pub(crate) in_progress: usize,
    pub(crate) unavailable: usize,
    pub(crate) mismatches: usize,
    pub(crate) unanswered: usize,
}

/// One operation of one account, and the success that it was told first.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) account: String,
    pub(crate) key: String,
    pub(crate) told: Answer,
}

impl Operation {
    /// Judges what the same request is answered after the success.
    pub(crate) fn check(&self, fleet: &Fleet, answer: &Answer) {
        let Self { account, key, told } = self;
        match answer.status {
            409 => fleet.violated(format!(
                "I3: {key} of {account} is in progress after its success"
            )),
            201 if !same(answer, told) => {
                fleet.violated(format!("I2: two answers for {key} of {account}"));
            }
            201 if !answer.is_replay() => {
                fleet.violated(format!("I3: {key} of {account} ran after its success"));
            }
            _ => {}
        }
    }
}

/// Remembers the first success of an operation; every other says the same.
fn tell(fleet: &Fleet, account: &str, key: &str, told: &OnceLock<Answer>, success: &Answer) {
    if !same(told.get_or_init(|| success.clone()), success) {
        fleet.violated(format!("I2: two answers for {key} of {account}"));
    }
}

/// Whether two successes say the same.
fn same(one: &Answer, other: &Answer) -> bool {
    let location = |answer: &Answer| answer.headers.get("location").cloned();
    one.body == other.body && location(one) == location(other)
}

/// Lets all clients work until the run is over.
pub(crate) async fn run(fleet: &Arc<Fleet>) -> Tally {
    let clients = (0..clients(fleet.run.mode)).map(|client| {
        let fleet = Arc::clone(fleet);
        tokio::spawn(async move {
            let mut tally = Tally::default();
            for n in 0.. {
                if fleet.is_over() {
                    break;
                }
                let key = format!("{client}-{n}");
                let both = ACCOUNTS.map(|account| operate(&fleet, account, &key));
                for seen in join_all(both).await {
                    tally.add(&seen);
                }
                tally.look_back(&fleet).await;
            }
            tally
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut all = Tally::default();
    for client in clients {
        all.add(&client.await.expect("no panic"));
    }
    all
}

/// Has an account use a key until it has an answer, asks every process for it then, and now and
/// then tries another request with the key.
async fn operate(fleet: &Fleet, account: &str, key: &str) -> Tally {
    let account = &fleet.account(account, key);
    let mut tally = Tally::default();
    fleet.begin_operation();
    let told = match fleet.run.mode {
        Mode::Atomic => tally.try_together(fleet, account, key).await,
        Mode::Leased => tally.persist(fleet, account, key).await,
    };
    let Some(told) = told else {
        if fleet.found().is_none() {
            fleet.violated(format!("I8: no answer for {key} of {account}"));
        }
        return tally;
    };
    let operation = Operation {
        account: account.clone(),
        key: key.to_owned(),
        told,
    };
    fleet.check_effect(&operation);

    for again in everywhere(fleet, account, key, fleet.size()).await {
        tally.look_at(fleet, &operation, again);
    }
    if random(4) == 0 {
        tally.impostor(fleet, account, key).await;
    }
    fleet.operations().push(operation);
    tally
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.tries += other.tries;
        self.replays += other.replays;
        self.take_overs += other.take_overs;
        self.in_progress += other.in_progress;
        self.mismatches += other.mismatches;
        self.unavailable += other.unavailable;
        self.unanswered += other.unanswered;
    }

    /// Sends duplicates to all processes at a time until one has an answer.
    async fn try_together(&mut self, fleet: &Fleet, account: &str, key: &str) -> Option<Answer> {
        let (told, begun) = (OnceLock::new(), Instant::now());
        while told.get().is_none() && begun.elapsed() < PATIENCE && fleet.found().is_none() {
            for answer in everywhere(fleet, account, key, DUPLICATES).await {
                if let Some(success) = self.note(fleet, answer, account, key) {
                    tell(fleet, account, key, &told, &success);
                }
            }
        }
        told.into_inner()
    }

    /// Some clients persist each on its own: one may hang at a server that stands still, while
    /// another one takes the key over.
    async fn persist(&mut self, fleet: &Fleet, account: &str, key: &str) -> Option<Answer> {
        let told = OnceLock::new();
        let alone = async || {
            let (mut tally, begun) = (Self::default(), Instant::now());
            while begun.elapsed() < PATIENCE && fleet.found().is_none() {
                let answer = attempt(fleet, fleet.anywhere(), account, key, Body::Ours).await;
                if let Some(success) = tally.note(fleet, answer, account, key) {
                    let order: Value = success.json();
                    tally.take_overs += usize::from(!success.is_replay() && order["attempt"] != 1);
                    tell(fleet, account, key, &told, &success);
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tally
        };
        for tally in join_all((1..DUPLICATES).map(|_| alone())).await {
            self.add(&tally);
        }
        told.into_inner()
    }

    /// Notes what came back, and returns it if it is a success.
    fn note(
        &mut self,
        fleet: &Fleet,
        answer: Option<Answer>,
        account: &str,
        key: &str,
    ) -> Option<Answer> {
        self.tries += 1;
        let Some(answer) = answer else {
            self.unanswered += 1;
            return None;
        };
        match answer.status {
            201 => {
                self.replays += usize::from(answer.is_replay());
                return Some(answer);
            }
            409 => self.in_progress += 1,
            503 => self.unavailable += 1,
            other => fleet.violated(format!("I5: {account} got {other} for {key}")),
        }
        None
    }

    /// Notes what a request got that was sent after its success.
    fn look_at(&mut self, fleet: &Fleet, operation: &Operation, answer: Option<Answer>) {
        if let Some(answer) = &answer {
            operation.check(fleet, answer);
        }
        self.note(fleet, answer, &operation.account, &operation.key);
    }

    /// Asks for an answer that somebody got a while ago.
    async fn look_back(&mut self, fleet: &Fleet) {
        let old = {
            let operations = fleet.operations();
            let back = random(RECENT) + 1;
            let Some(old) = operations.len().checked_sub(back) else {
                return;
            };
            operations[old].clone()
        };
        let at = fleet.anywhere();
        let answer = attempt(fleet, at, &old.account, &old.key, Body::Ours).await;
        self.look_at(fleet, &old, answer);
    }

    async fn impostor(&mut self, fleet: &Fleet, account: &str, key: &str) {
        self.tries += 1;
        match attempt(fleet, fleet.anywhere(), account, key, Body::Theirs).await {
            None => self.unanswered += 1,
            Some(answer) if answer.status == 422 => self.mismatches += 1,
            Some(answer) if answer.status == 503 => self.unavailable += 1,
            Some(answer) => fleet.violated(format!(
                "I5: another request with {key} of {account} got {}",
                answer.status
            )),
        }
    }
}

/// Sends so many duplicates at once, to one process after the other.
async fn everywhere(
    fleet: &Fleet,
    account: &str,
    key: &str,
    duplicates: usize,
) -> Vec<Option<Answer>> {
    let first = fleet.anywhere();
    let attempts = (0..duplicates).map(|n| {
        let at = (first + n) % fleet.size();
        attempt(fleet, at, account, key, Body::Ours)
    });
    join_all(attempts).await
}

/// Sends one request; `None` when the client left or no answer came back.
async fn attempt(fleet: &Fleet, at: usize, account: &str, key: &str, body: Body) -> Option<Answer> {
    let pending = fleet.send(at, account, key, body).await;
    if random(7) == 0 {
        tokio::time::sleep(Duration::from_millis(random(10) as u64)).await;
        pending.leave();
        return None;
    }
    pending.answer_if_any().await
}
