//! What must hold after it all, by the histories of the clients, the effects, the records, and the
//! sessions of the database.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idem_tests::Answer;
use idem_tests::database::Kind;
use serde_json::Value;

use crate::Mode;
use crate::clients::{Body, Operation, Tally};
use crate::fleet::Fleet;

impl Mode {
    /// What one operation writes, by label; the label is the key where there is none.
    fn effects(self) -> &'static [Option<&'static str>] {
        match self {
            Self::Atomic => &[None],
            Self::Leased => &[Some("reserve"), Some("confirm")],
        }
    }

    /// The member of an answer that names an effect.
    fn effect_id(self) -> &'static str {
        match self {
            Self::Atomic => "effect",
            Self::Leased => "reserved",
        }
    }
}

/// A run's figures and what it found.
#[derive(Debug)]
pub(crate) struct Report {
    run: String,
    kills: usize,
    freezes: usize,
    deliveries: i64,
    tally: Tally,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            operations,
            tries,
            replays,
            take_overs,
            in_progress,
            mismatches,
            unavailable,
            unanswered,
            violations,
        } = &self.tally;
        write!(
            f,
            "{}: {} keys, {tries} tries, {} kills, {} freezes, {replays} replays, \
             {take_overs} take-overs, {in_progress} answers 409, {mismatches} answers 422, \
             {unavailable} answers 503, {unanswered} without answer, {} deliveries, {} violations",
            self.run,
            operations.len(),
            self.kills,
            self.freezes,
            self.deliveries,
            violations.len()
        )
    }
}

impl Report {
    pub(crate) fn assert_clean(&self) {
        println!("{self}");
        let found = self.tally.violations.iter().take(10);
        let found: Vec<_> = found.map(String::as_str).collect();
        assert!(found.is_empty(), "{self}\n{}", found.join("\n"));
        let tally = &self.tally;
        for (what, count) in [
            ("kill", self.kills),
            ("replay", tally.replays),
            ("409", tally.in_progress),
            ("422", tally.mismatches),
            ("503", tally.unavailable),
            ("lost answer", tally.unanswered),
        ] {
            // On SQLite in one process nothing makes the store unavailable.
            let never = what == "503" && self.run.contains("Sqlite");
            assert!(never || count > 0, "I10: not a single {what}: {self}");
        }
        let leased = self.run.starts_with("Leased");
        assert!(
            !leased || (self.freezes > 0 && tally.take_overs > 0),
            "I10: not a single freeze or take-over: {self}"
        );
    }

    /// Says whether this invariant was broken.
    pub(crate) fn finds(&self, invariant: &str) -> bool {
        println!("{self}");
        let mut found = self.tally.violations.iter();
        found.any(|violation| violation.starts_with(invariant))
    }
}

pub(crate) async fn audit(fleet: &Fleet, tally: Tally) -> Report {
    let run = &fleet.run;
    let mut report = Report {
        run: format!("{:?} {:?} {}", run.mode, run.kind, run.bug),
        kills: fleet.kills.load(Ordering::Relaxed),
        freezes: fleet.freezes.load(Ordering::Relaxed),
        deliveries: 0,
        tally,
    };
    // I7: no session holds a transaction of the dead.
    fleet.database.until_no_transaction_is_open().await;
    let mut effects = HashSet::new();
    let operations = std::mem::take(&mut report.tally.operations);
    for operation in &operations {
        let violations = &mut report.tally.violations;
        match settled(fleet, operation).await {
            Some(last) => check(fleet, operation, &last, &mut effects, violations).await,
            None => violations.push(format!("I8: no answer for {}", operation.key)),
        }
    }
    if run.mode == Mode::Atomic {
        report.deliveries = check_messages(fleet, &mut report.tally.violations).await;
    }
    let all = i64::try_from(operations.len()).expect("a small number");
    let (found, keys) = (fleet.database.effects().await, fleet.database.keys().await);
    let each = i64::try_from(run.mode.effects().len()).expect("a small number");
    if found != each * keys || keys != all {
        let violation = format!("I4: {found} effects and {keys} records of {all} operations");
        report.tally.violations.push(violation);
    }
    if let Some(psp) = &fleet.psp {
        let charges = psp.charges().await.len();
        if charges != operations.len() {
            let violation = format!("I1: {charges} charges for {all} operations");
            report.tally.violations.push(violation);
        }
    }
    report.tally.operations = operations;
    report
}

/// Each effect was told of once, and each message was delivered; returns how often in all.
async fn check_messages(fleet: &Fleet, violations: &mut Vec<String>) -> i64 {
    let database = fleet.database.pool();
    let deadline = Instant::now() + Duration::from_mins(1);
    let unsent = "select count(*) from outbox where state <> 2";
    while database.number(unsent).await > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let text = if fleet.run.kind.is_sqlite() {
        "cast(payload as text)"
    } else {
        "convert_from(payload, 'UTF8')"
    };
    let told = format!("select {text} from outbox");
    let effects = "select account || '/' || label from effects";
    for (what, sql) in [
        (
            "messages not delivered",
            format!("{told} except select label from deliveries"),
        ),
        (
            "deliveries of no message",
            format!("select label from deliveries except {told}"),
        ),
        (
            "effects without a message",
            format!("{effects} except {told}"),
        ),
        (
            "messages without an effect",
            format!("{told} except {effects}"),
        ),
        (
            "effects with more messages than one",
            format!("select 1 from outbox group by {text} having count(*) > 1"),
        ),
    ] {
        let count = format!("select count(*) from ({sql}) as found");
        let count = database.number(&count).await;
        if count > 0 {
            violations.push(format!("I9: {count} {what}"));
        }
    }
    database.number("select count(*) from deliveries").await
}

/// One more try after everything has calmed down.
async fn settled(fleet: &Fleet, operation: &Operation) -> Option<Answer> {
    let deadline = Instant::now() + Duration::from_secs(15);
    while Instant::now() < deadline {
        let retry = fleet
            .send(&operation.account, &operation.key, Body::Ours)
            .await;
        let answer = retry.answer_if_any().await?;
        if answer.status == 201 {
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    None
}

async fn check(
    fleet: &Fleet,
    Operation {
        account,
        key,
        successes,
    }: &Operation,
    last: &Answer,
    effects: &mut HashSet<i64>,
    violations: &mut Vec<String>,
) {
    if !last.is_replay() {
        violations.push(format!("I3: the success of {account} for {key} is lost"));
    }
    for success in successes {
        let same = (&success.body, success.headers.get("location"))
            == (&last.body, last.headers.get("location"));
        if !same {
            violations.push(format!("I2: two answers for {key} of {account}"));
        }
    }
    let mode = fleet.run.mode;
    let effect = last.json::<Value>()[mode.effect_id()].as_i64();
    let effect = effect.expect("the id of an effect");
    if !effects.insert(effect) {
        violations.push(format!("I6: {account} sees another's effect for {key}"));
    }
    let database = fleet.database.pool();
    for label in mode.effects() {
        let label = label.unwrap_or(key);
        let count = format!(
            "select count(*) from effects where label = '{label}' and account = '{account}'"
        );
        let count = database.number(&count).await;
        if count > 1 {
            violations.push(format!(
                "I1: {count} effects {label} for {key} of {account}"
            ));
        } else if count == 0 {
            violations.push(format!("I3: no effect {label} for {key} of {account}"));
        }
    }
    if fleet.run.kind == Kind::Postgres && fleet.run.bug.is_empty() {
        let record = format!(
            "select count(*) from idempotency_keys where tenant = '{account}' and key = '{key}'"
        );
        if database.number(&record).await != 1 {
            violations.push(format!("I4: no record for {key} of {account}"));
        }
    }
}
