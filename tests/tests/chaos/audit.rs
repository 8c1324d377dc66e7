//! What must hold after it all, by the histories of the clients, the effects, the records, and the
//! sessions of the database.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idem_tests::Answer;
use idem_tests::database::Kind;

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
    pub(crate) fn effect_id(self) -> &'static str {
        match self {
            Self::Atomic => "effect",
            Self::Leased => "reserved",
        }
    }
}

/// A run's figures, in a line.
pub(crate) async fn report(fleet: &Fleet, tally: &Tally) -> String {
    let Tally {
        tries,
        replays,
        take_overs,
        in_progress,
        mismatches,
        unavailable,
        unanswered,
    } = tally;
    let database = fleet.database.pool();
    let deliveries = database.number("select count(*) from deliveries").await;
    format!(
        "{:?} {:?}: {} keys, {tries} tries, {} kills, {} freezes, {replays} replays, \
         {take_overs} take-overs, {in_progress} answers 409, {mismatches} answers 422, \
         {unavailable} answers 503, {unanswered} without answer, {deliveries} deliveries",
        fleet.run.mode,
        fleet.run.kind,
        fleet.keys.load(Ordering::Relaxed),
        fleet.kills.load(Ordering::Relaxed),
        fleet.freezes.load(Ordering::Relaxed),
    )
}

/// A run in which nothing went wrong would prove nothing.
pub(crate) fn assert_eventful(fleet: &Fleet, tally: &Tally, report: &str) {
    let (mode, kind) = (fleet.run.mode, fleet.run.kind);
    for (what, count) in [
        ("kill", fleet.kills.load(Ordering::Relaxed)),
        ("replay", tally.replays),
        ("409", tally.in_progress),
        ("422", tally.mismatches),
        ("503", tally.unavailable),
        ("lost answer", tally.unanswered),
    ] {
        // On SQLite in one process nothing makes the store unavailable.
        let never = what == "503" && kind.is_sqlite();
        assert!(never || count > 0, "I10: not a single {what}: {report}");
    }
    let freezes = fleet.freezes.load(Ordering::Relaxed);
    assert!(
        mode == Mode::Atomic || (freezes > 0 && tally.take_overs > 0),
        "I10: not a single freeze or take-over: {report}"
    );
}

pub(crate) async fn audit(fleet: &Fleet) {
    let run = &fleet.run;
    // I7: no session holds a transaction of the dead.
    fleet.database.until_no_transaction_is_open().await;
    let operations = fleet.operations().clone();
    for operation in &operations {
        if let Some(last) = settled(fleet, operation).await {
            check(fleet, operation, &last).await;
        } else {
            let Operation { account, key, .. } = operation;
            fleet.violated(format!("I8: no answer for {key} of {account} in the end"));
        }
    }
    if run.mode == Mode::Atomic {
        check_messages(fleet).await;
    }
    let all = i64::try_from(operations.len()).expect("a small number");
    let (found, keys) = (fleet.database.effects().await, fleet.database.keys().await);
    let each = i64::try_from(run.mode.effects().len()).expect("a small number");
    if found != each * keys || keys != all {
        fleet.violated(format!(
            "I4: {found} effects and {keys} records of {all} operations"
        ));
    }
    if let Some(psp) = &fleet.psp {
        let charges = psp.charges().await.len();
        if charges != operations.len() {
            fleet.violated(format!("I1: {charges} charges for {all} operations"));
        }
    }
}

/// Each effect was told of once, and each message was delivered.
async fn check_messages(fleet: &Fleet) {
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
            fleet.violated(format!("I9: {count} {what}"));
        }
    }
}

/// One more try after everything has calmed down.
async fn settled(fleet: &Fleet, operation: &Operation) -> Option<Answer> {
    let deadline = Instant::now() + Duration::from_secs(15);
    while Instant::now() < deadline {
        let Operation { account, key, .. } = operation;
        let retry = fleet.send(fleet.anywhere(), account, key, Body::Ours).await;
        let answer = retry.answer_if_any().await?;
        if answer.status == 201 {
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    None
}

async fn check(fleet: &Fleet, operation: &Operation, last: &Answer) {
    operation.check(fleet, last);
    let Operation { account, key, .. } = operation;
    let database = fleet.database.pool();
    for label in fleet.run.mode.effects() {
        let label = label.unwrap_or(key);
        let count = format!(
            "select count(*) from effects where label = '{label}' and account = '{account}'"
        );
        let count = database.number(&count).await;
        if count > 1 {
            fleet.violated(format!(
                "I1: {count} effects {label} for {key} of {account}"
            ));
        } else if count == 0 {
            fleet.violated(format!("I3: no effect {label} for {key} of {account}"));
        }
    }
    if fleet.run.kind == Kind::Postgres {
        let record = format!(
            "select count(*) from idempotency_keys where tenant = '{account}' and key = '{key}'"
        );
        if database.number(&record).await != 1 {
            fleet.violated(format!("I4: no record for {key} of {account}"));
        }
    }
}
