//! Reconciliation: a run that may have happened waits for an operator.

use std::io;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::{FutureExt, stream};
use idem_runtime::{KeyState, SettleError, Settlement};
use idem_tests::Kind;
use idem_tests::app::Setting;
use idem_tests::client::Pending;
use idem_tests::leased::LeasedSetup;
use serde_json::Value;

use crate::{Two, end_retention};

/// The lease of the first owner of key "k" ends at the point, with the owner still there.
async fn abandoned_at(kind: Kind, point: &str) -> (Two, Pending) {
    let two = Two::start(kind).await;
    let lost = two.abandon(kind, two.first.reconciled("k"), point).await;
    (two, lost)
}

async fn a_step_that_may_have_happened_parks_the_key(kind: Kind) {
    let (
        Two {
            first,
            second,
            database,
        },
        lost,
    ) = abandoned_at(kind, "charging").await;
    for _ in 0..2 {
        second
            .reconciled("k")
            .await
            .assert_refused(409, "needs-reconciliation");
    }
    let key = second.find_reconciled("k").await;
    assert_eq!((key.state, key.attempt), (KeyState::NeedsReconciliation, 2));
    let steps: Vec<_> = key
        .steps
        .iter()
        .map(|step| (&*step.name, step.finished))
        .collect();
    assert_eq!(steps, [("charge", false), ("reserve", true)]);

    // It waits as long as it takes, and nothing that the old owner does settles it.
    end_retention(&database, kind).await;
    assert_eq!(second.handle.sweep().await.expect("a sweep"), 0);
    first.order.gates.at("charging").open();
    lost.answer()
        .await
        .assert_refused(409, "needs-reconciliation");
    second
        .reconciled("k")
        .await
        .assert_refused(409, "needs-reconciliation");
    assert_eq!(second.order.gates.at("charging").arrived(), 0);
    assert_eq!(database.effects().await, 1);
}

async fn a_step_that_may_have_happened_outlives_the_ttl(kind: Kind) {
    let (two, _lost) = abandoned_at(kind, "charging").await;
    // Long after a key without an open question would have expired.
    let month = if kind.is_sqlite() {
        "30 * 86400000"
    } else {
        "interval '30 days'"
    };
    let later = format!("update idempotency_keys set expires_at = expires_at - {month}");
    two.database.pool().execute(&later).await;
    assert_eq!(two.second.handle.sweep().await.expect("a sweep"), 0);
    two.second
        .reconciled("k")
        .await
        .assert_refused(409, "needs-reconciliation");
    assert_eq!(two.second.order.gates.at("charging").arrived(), 0);
}

async fn between_two_steps_nothing_is_open_and_the_run_resumes(kind: Kind) {
    let two = Two::start(kind).await;
    for point in ["claimed", "reserved", "recorded", "confirmed"] {
        let before = two.database.effects().await;
        let lost = two.abandon(kind, two.first.reconciled(point), point).await;
        let key = two.second.find_reconciled(point).await;
        let kept = key.expires_at.duration_since(SystemTime::now());
        let two_days = Duration::from_hours(48);
        assert!(kept.is_ok_and(|kept| kept < two_days), "{point}: {key:?}");
        let answer = two.second.reconciled(point).await;
        assert_eq!(answer.status, 201, "{point}: {answer:?}");
        two.first.order.gates.at(point).open();
        lost.answer().await.assert_replays(&answer);
        assert_eq!(two.effects_since(before).await, 2, "{point}");
    }
}

async fn an_operator_completes_a_parked_key(kind: Kind) {
    let (
        Two {
            first,
            second,
            database,
        },
        lost,
    ) = abandoned_at(kind, "charged").await;
    second
        .reconciled("k")
        .await
        .assert_refused(409, "needs-reconciliation");

    second
        .complete("k", "charged by hand")
        .await
        .expect("a parked key");
    let answer = second.reconciled("k").await;
    assert_eq!(
        (answer.status, &answer.body[..]),
        (200, &b"charged by hand"[..])
    );
    assert!(answer.is_replay(), "{answer:?}");
    first.order.gates.at("charged").open();
    assert_eq!(lost.answer().await.body, "charged by hand");
    assert_eq!(database.effects().await, 1);
}

async fn an_operator_releases_a_parked_key(kind: Kind) {
    let (
        Two {
            first: _first,
            second,
            database,
        },
        _lost,
    ) = abandoned_at(kind, "charging").await;
    second
        .reconciled("k")
        .await
        .assert_refused(409, "needs-reconciliation");

    second.release("k").await.expect("a parked key");
    let key = second.find_reconciled("k").await;
    assert_eq!(key.state, KeyState::Released);
    assert_eq!(key.steps.len(), 1, "what was begun did not happen: {key:?}");
    let answer = second.reconciled("k").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let gates = &second.order.gates;
    assert_eq!(
        (
            gates.at("reserving").arrived(),
            gates.at("charging").arrived()
        ),
        (0, 1)
    );
    assert_eq!(database.effects().await, 2);
}

async fn an_operators_word_keeps_a_key_no_shorter(kind: Kind) {
    let (two, _lost) = abandoned_at(kind, "charging").await;
    two.second.reconciled("k").await;
    let month = if kind.is_sqlite() {
        "30 * 86400000"
    } else {
        "interval '30 days'"
    };
    // As in a scope that keeps its keys for longer.
    let later = format!("update idempotency_keys set expires_at = expires_at + {month}");
    two.database.pool().execute(&later).await;
    let before = two.second.find_reconciled("k").await.expires_at;
    two.second
        .complete("k", "by hand")
        .await
        .expect("a parked key");
    assert_eq!(two.second.find_reconciled("k").await.expires_at, before);
}

#[test]
fn an_operators_word_keeps_a_key_for_as_long_as_an_attribute_may() {
    let word = || Settlement::new("olga", "the provider's list says so");
    let day = Duration::from_hours(24);
    for (ttl, is_ttl) in [
        (Duration::from_millis(999), false),
        (Duration::from_secs(1), true),
        (400 * day, true),
        (401 * day, false),
    ] {
        assert_eq!(word().ttl(ttl).is_ok(), is_ttl, "{ttl:?}");
    }
}

async fn an_operators_word_keeps_a_key_for_as_long_as_it_says(kind: Kind) {
    let (two, _lost) = abandoned_at(kind, "charging").await;
    two.second.reconciled("k").await;
    let day = Duration::from_hours(24);
    let word = Settlement::new("olga", "the provider's list says so").ttl(60 * day);
    let word = word.expect("a ttl");
    let completed = two.second.complete_with("k", "by hand", word).await;
    completed.expect("a parked key");
    let key = two.second.find_reconciled("k").await;
    let kept = key
        .expires_at
        .duration_since(key.completed_at.expect("it is done"));
    assert_eq!(kept.expect("later"), 60 * day);
}

async fn a_response_that_fails_completes_nothing(kind: Kind) {
    let (two, _lost) = abandoned_at(kind, "charging").await;
    two.second.reconciled("k").await;
    let broken = stream::iter([Err::<&str, _>(io::Error::other("broken"))]);
    let word = Settlement::new("olga", "the provider's list says so");
    let refused = two
        .second
        .complete_with("k", Body::from_stream(broken), word);
    let refused = refused.await;
    assert!(matches!(refused, Err(SettleError::Response)), "{refused:?}");
    let key = two.second.find_reconciled("k").await;
    assert_eq!(key.state, KeyState::NeedsReconciliation);
}

/// Operators know keys as clients sent them, however they are stored.
async fn an_operator_settles_digests_with_sealed_responses(kind: Kind) {
    let setup = LeasedSetup {
        settings: &[Setting::DigestKeys, Setting::Seal],
        ..LeasedSetup::default()
    };
    let two = Two::with(kind, setup).await;
    for point in ["charged", "charging"] {
        let _lost = two.abandon(kind, two.first.reconciled(point), point).await;
        let retry = two.second.reconciled(point).await;
        retry.assert_refused(409, "needs-reconciliation");
        let key = two.second.find_reconciled(point).await;
        assert_eq!(key.state, KeyState::NeedsReconciliation);
        assert_eq!(key.steps.len(), 2, "{key:?}");
    }
    two.second
        .complete("charging", "by hand")
        .await
        .expect("a parked key");
    let answer = two.second.reconciled("charging").await;
    assert!(answer.is_replay() && answer.body == "by hand", "{answer:?}");
    two.second.release("charged").await.expect("a parked key");
    let resumed = two.second.reconciled("charged").await;
    assert_eq!(resumed.status, 201, "{resumed:?}");
    let reserved = two.second.order.gates.at("reserving").arrived();
    assert_eq!(reserved, 0, "a finished step ran again");
    let raw = "select count(*) from idempotency_keys where key in ('charging', 'charged')";
    assert_eq!(two.database.pool().number(raw).await, 0);
}

/// An owner that comes back after the operator's word changes nothing.
async fn an_owner_that_comes_back_does_not_overrule_a_completion(kind: Kind) {
    let two = Two::start(kind).await;
    let Two {
        first,
        second,
        database,
    } = &two;
    for point in ["reserved", "charged", "recorded", "confirmed"] {
        let lost = two.abandon(kind, first.reconciled(point), point).await;
        let before = database.effects().await;
        let completed = second.complete(point, "charged by hand").await;
        completed.expect("an abandoned key");

        first.order.gates.at(point).open();
        let answer = lost.answer().await;
        assert_eq!(answer.body, "charged by hand", "{point}: {answer:?}");
        let retry = second.reconciled(point).await;
        assert_eq!(retry.body, "charged by hand", "{point}: {retry:?}");
        assert_eq!(two.effects_since(before).await, 0, "{point}");
    }
}

async fn an_owner_that_comes_back_does_not_overrule_a_release(kind: Kind) {
    let two = Two::start(kind).await;
    let Two {
        first,
        second,
        database,
    } = &two;
    for point in ["reserved", "charged", "recorded", "confirmed"] {
        let lost = two.abandon(kind, first.reconciled(point), point).await;
        let before = database.effects().await;
        second.release(point).await.expect("an abandoned key");

        first.order.gates.at(point).open();
        lost.answer().await.assert_refused(409, "in-progress");
        let key = second.find_reconciled(point).await;
        assert_eq!(
            (key.state, key.locked_until),
            (KeyState::Released, None),
            "{point}"
        );
        assert_eq!(two.effects_since(before).await, 0, "{point}");
        let answer = second.reconciled(point).await;
        assert_eq!(
            (answer.status, answer.is_replay()),
            (201, false),
            "{point}: {answer:?}"
        );
    }
}

async fn an_operator_settles_only_what_nobody_holds(kind: Kind) {
    let Two {
        first,
        second,
        database: _database,
    } = Two::start(kind).await;
    let missing = second.complete("k", "by hand").await;
    assert!(matches!(missing, Err(SettleError::NotFound)), "{missing:?}");

    let recorded = first.order.gates.at("recorded");
    recorded.close();
    let running = first.reconciled("k").start();
    recorded.until_arrived(1).await;
    for settled in [
        second.complete("k", "by hand").await,
        second.release("k").await,
    ] {
        assert!(
            matches!(settled, Err(SettleError::InProgress)),
            "{settled:?}"
        );
    }
    recorded.open();
    let answer = running.answer().await;
    assert_eq!(answer.json::<Value>()["attempt"], 1);

    for settled in [
        second.complete("k", "by hand").await,
        second.release("k").await,
    ] {
        assert!(matches!(settled, Err(SettleError::Finished)), "{settled:?}");
    }
    second.reconciled("k").await.assert_replays(&answer);
}

async fn a_completed_key_is_found_finished(kind: Kind) {
    let (
        Two {
            first: _first,
            second,
            database: _database,
        },
        _lost,
    ) = abandoned_at(kind, "charging").await;
    second
        .complete("k", "charged by hand")
        .await
        .expect("an abandoned key");
    let key = second.find_reconciled("k").await;
    assert_eq!(key.state, KeyState::Finished);
    assert!(
        key.completed_at.is_some_and(|at| at >= key.created_at),
        "{key:?}"
    );
    assert!(
        key.expires_at > key.created_at && key.locked_until.is_none(),
        "{key:?}"
    );
}

/// An error of a step's own says that the step is not done, not that it did not happen.
async fn a_failed_step_is_as_open_as_an_interrupted_one(kind: Kind) {
    let Two {
        first,
        second: _second,
        database: _database,
    } = Two::start(kind).await;
    first.handler(|lease| {
        async move {
            let lost = async || Err::<(), _>(StatusCode::BAD_GATEWAY);
            lease.step("charge", lost).await.expect_err("no answer");
            StatusCode::BAD_GATEWAY.into_response()
        }
        .boxed()
    });
    assert_eq!(first.reconciled("k").await.status, 502);
    first
        .reconciled("k")
        .await
        .assert_refused(409, "needs-reconciliation");
}

stamp!(
    a_step_that_may_have_happened_parks_the_key,
    a_step_that_may_have_happened_outlives_the_ttl,
    between_two_steps_nothing_is_open_and_the_run_resumes,
    an_operator_completes_a_parked_key,
    an_operator_releases_a_parked_key,
    an_operators_word_keeps_a_key_no_shorter,
    an_operators_word_keeps_a_key_for_as_long_as_it_says,
    a_response_that_fails_completes_nothing,
    an_operator_settles_digests_with_sealed_responses,
    an_owner_that_comes_back_does_not_overrule_a_completion,
    an_owner_that_comes_back_does_not_overrule_a_release,
    an_operator_settles_only_what_nobody_holds,
    a_completed_key_is_found_finished,
    a_failed_step_is_as_open_as_an_interrupted_one,
);
