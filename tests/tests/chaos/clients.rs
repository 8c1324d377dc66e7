//! Clients that persist until they have an answer, and what they remember.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_tests::Answer;
use serde_json::Value;

use crate::Mode;
use crate::fleet::{Fleet, random};

const CLIENTS: usize = 8;

/// Two accounts that use the same keys for the same requests.
const ACCOUNTS: [&str; 2] = ["alice", "bob"];

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
    pub(crate) operations: Vec<Operation>,
    pub(crate) tries: usize,
    pub(crate) replays: usize,
    pub(crate) take_overs: usize,
    pub(crate) in_progress: usize,
    pub(crate) unavailable: usize,
    pub(crate) mismatches: usize,
    pub(crate) unanswered: usize,
    pub(crate) violations: Vec<String>,
}

/// One operation of one account, with every success that it was told.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) account: String,
    pub(crate) key: String,
    pub(crate) successes: Vec<Answer>,
}

/// Lets all clients work until the time is over.
pub(crate) async fn run(fleet: &Arc<Fleet>) -> Tally {
    let clients = (0..CLIENTS).map(|client| {
        let fleet = Arc::clone(fleet);
        tokio::spawn(async move {
            let mut tally = Tally::default();
            for n in 0.. {
                if fleet.is_over() {
                    break;
                }
                tally.use_key(&fleet, format!("{client}-{n}")).await;
            }
            tally
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut all = Tally::default();
    for client in clients {
        all.add(client.await.expect("no panic"));
    }
    all
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.operations.extend(other.operations);
        self.violations.extend(other.violations);
        self.tries += other.tries;
        self.replays += other.replays;
        self.take_overs += other.take_overs;
        self.in_progress += other.in_progress;
        self.unavailable += other.unavailable;
        self.mismatches += other.mismatches;
        self.unanswered += other.unanswered;
    }

    /// Has both accounts use a key, and somebody try another request with it afterwards.
    async fn use_key(&mut self, fleet: &Fleet, key: String) {
        for account in ACCOUNTS {
            let account = &fleet.account(account, &key);
            let mut successes = match fleet.run.mode {
                Mode::Atomic => self.try_together(fleet, account, &key).await,
                Mode::Leased => self.persist(fleet, account, &key).await,
            };
            // Whoever has the answer finds it again, in whichever process.
            let again = attempt(fleet, account, &key, Body::Ours).await;
            if again.as_ref().is_some_and(|again| again.status == 409) {
                let violation = format!("I3: {key} of {account} is in progress after its success");
                self.violations.push(violation);
            }
            successes.extend(self.note(again, account, &key));
            if random(4) == 0 {
                self.impostor(fleet, account, &key).await;
            }
            self.operations.push(Operation {
                account: account.clone(),
                key: key.clone(),
                successes,
            });
        }
    }

    /// Sends two duplicates at a time until one has an answer.
    async fn try_together(&mut self, fleet: &Fleet, account: &str, key: &str) -> Vec<Answer> {
        let mut successes = Vec::new();
        while successes.is_empty() {
            let (one, other) = tokio::join!(
                attempt(fleet, account, key, Body::Ours),
                attempt(fleet, account, key, Body::Ours)
            );
            for answer in [one, other] {
                successes.extend(self.note(answer, account, key));
            }
        }
        successes
    }

    /// Two clients persist each on its own: one may hang at a server that stands still, while the
    /// other one takes the key over.
    async fn persist(&mut self, fleet: &Fleet, account: &str, key: &str) -> Vec<Answer> {
        let alone = async || {
            let mut tally = Self::default();
            let deadline = Instant::now() + Duration::from_mins(1);
            while Instant::now() < deadline {
                let answer = attempt(fleet, account, key, Body::Ours).await;
                if let Some(success) = tally.note(answer, account, key) {
                    let order: Value = success.json();
                    tally.take_overs += usize::from(!success.is_replay() && order["attempt"] != 1);
                    return (tally, Some(success));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            (tally, None)
        };
        let ((first, one), (second, other)) = tokio::join!(alone(), alone());
        self.add(first);
        self.add(second);
        one.into_iter().chain(other).collect()
    }

    /// Notes what came back, and returns it if it is a success.
    fn note(&mut self, answer: Option<Answer>, account: &str, key: &str) -> Option<Answer> {
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
            _ => {
                let violation = format!("I5: {account} got {} for {key}", answer.status);
                self.violations.push(violation);
            }
        }
        None
    }

    async fn impostor(&mut self, fleet: &Fleet, account: &str, key: &str) {
        self.tries += 1;
        match attempt(fleet, account, key, Body::Theirs).await {
            None => self.unanswered += 1,
            Some(answer) if answer.status == 422 => self.mismatches += 1,
            Some(answer) if answer.status == 503 => self.unavailable += 1,
            Some(answer) => self.violations.push(format!(
                "I5: another request with {key} of {account} got {}",
                answer.status
            )),
        }
    }
}

/// Sends one request; `None` when the client left or no answer came back.
async fn attempt(fleet: &Fleet, account: &str, key: &str, body: Body) -> Option<Answer> {
    let pending = fleet.send(account, key, body).await;
    if random(7) == 0 {
        tokio::time::sleep(Duration::from_millis(random(10) as u64)).await;
        pending.leave();
        return None;
    }
    pending.answer_if_any().await
}
