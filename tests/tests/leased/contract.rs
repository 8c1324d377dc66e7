//! What a client sees of a leased handler.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::FutureExt;
use idem_runtime::KeyState;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{LeasedApp, LeasedSetup, POINTS};
use idem_tests::{Gate, Kind};
use serde_json::Value;

use crate::{Two, steps, until};

async fn a_retry_gets_the_answer_of_the_first(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let answer = first.order("k").await;
    assert_eq!(
        (answer.status, answer.is_replay()),
        (201, false),
        "{answer:?}"
    );

    first.order("k").await.assert_replays(&answer);
    second.order("k").await.assert_replays(&answer);
    assert_eq!(
        database.effects().await,
        2,
        "one reservation, and one confirmation"
    );
    assert_eq!(first.find("k").await.state, KeyState::Finished);
}

async fn a_repeat_in_flight_is_refused(kind: Kind) {
    let Two {
        first,
        second,
        database: _database,
    } = Two::start(kind).await;
    let recorded = first.order.gates.at("recorded");
    recorded.close();
    let running = first.order("k").start();
    recorded.until_arrived(1).await;

    first.order("k").await.assert_refused(409, "in-progress");
    second.order("k").await.assert_refused(409, "in-progress");

    recorded.open();
    let answer = running.answer().await;
    second.order("k").await.assert_replays(&answer);
}

async fn another_request_is_told_so_before_and_after(kind: Kind) {
    let Two {
        first,
        second,
        database: _database,
    } = Two::start(kind).await;
    let recorded = first.order.gates.at("recorded");
    recorded.close();
    let running = first.order("k").start();
    recorded.until_arrived(1).await;

    for app in [&first, &second] {
        let other = app.order_with("k", "card_other").await;
        other.assert_refused(422, "request-mismatch");
    }
    recorded.open();
    assert_eq!(running.answer().await.status, 201);
    for app in [&first, &second] {
        let other = app.order_with("k", "card_other").await;
        other.assert_refused(422, "request-mismatch");
    }
}

async fn a_repeat_may_wait_for_the_answer(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let patient = LeasedSetup {
        wait: Duration::from_mins(1),
        ..LeasedSetup::default()
    };
    let first = LeasedApp::with(&database, patient).await;
    let second = LeasedApp::with(&database, patient).await;
    let recorded = first.order.gates.at("recorded");
    recorded.close();
    let running = first.order("k").start();
    recorded.until_arrived(1).await;

    let (here, there) = (first.order("k").start(), second.order("k").start());
    recorded.open();
    let answer = running.answer().await;
    here.answer().await.assert_replays(&answer);
    there.answer().await.assert_replays(&answer);
    assert_eq!(database.effects().await, 2);
}

async fn tenants_and_keys_are_apart(kind: Kind) {
    let Two {
        first,
        second: _second,
        database,
    } = Two::start(kind).await;
    let alice = first.order("k").await;
    let bob = first.order("k").account("bob").await;
    let other = first.order("l").await;
    for answer in [&alice, &bob, &other] {
        assert_eq!(
            (answer.status, answer.is_replay()),
            (201, false),
            "{answer:?}"
        );
    }
    let charge = |answer: &idem_tests::Answer| answer.json::<Value>()["charge"].clone();
    assert_ne!(charge(&alice), charge(&bob));
    assert_ne!(charge(&alice), charge(&other));
    assert_eq!(database.effects().await, 6);
}

async fn a_client_that_leaves_changes_nothing(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let charging = first.order.gates.at("charging");
    charging.close();
    let running = first.order("k").start();
    charging.until_arrived(1).await;
    running.leave();
    charging.open();

    let mut answer = second.order("k").await;
    while answer.status == 409 {
        answer = second.order("k").await;
    }
    assert_eq!(
        (answer.status, answer.is_replay()),
        (201, true),
        "{answer:?}"
    );
    assert_eq!(answer.json::<Value>()["attempt"], 1);
    assert_eq!(database.effects().await, 2);
}

/// A run between its steps holds no connection: with a pool of one, others go on.
async fn a_run_holds_no_connection(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let narrow = LeasedSetup {
        pool_size: 1,
        ..LeasedSetup::default()
    };
    let app = LeasedApp::with(&database, narrow).await;
    for point in POINTS {
        if matches!(point, "reserving" | "confirming") {
            // These are inside a transaction.
            continue;
        }
        let gate = app.order.gates.at(point);
        let before = gate.arrived();
        gate.close();
        let running = app.order(point).start();
        gate.until_arrived(before + 1).await;
        gate.open_for_newcomers();
        let other = app.order(&format!("while {point}").replace(' ', "-")).await;
        assert_eq!(other.status, 201, "while {point}: {other:?}");
        gate.open();
        assert_eq!(running.answer().await.status, 201);
    }
}

/// An answer that is too long to keep is given whole, once, and the run never begins again.
async fn a_run_without_a_key_is_not_kept_for_long(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let app = LeasedApp::start(&database).await;
    for _ in 0..2 {
        let answer = app.order_without_key().start().answer().await;
        assert_eq!(
            (answer.status, answer.is_replay()),
            (201, false),
            "{answer:?}"
        );
    }
    // Nobody can ask for them, so the sweep may have them at once.
    until("the runs are swept", async || {
        app.handle.sweep().await.expect("a sweep");
        database
            .pool()
            .number("select count(*) from idempotency_keys")
            .await
            == 0
    })
    .await;
}

/// Nobody can ask for it again, so its open question is not kept for an operator.
async fn a_run_without_a_key_leaves_no_question_open(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let setup = LeasedSetup {
        lease: Duration::from_secs(1),
        ..LeasedSetup::default()
    };
    let app = LeasedApp::with(&database, setup).await;
    app.handler(|lease| {
        async move {
            let call = async || Err::<(), _>(StatusCode::BAD_GATEWAY);
            lease.step("call", call).await.expect_err("a failed call");
            StatusCode::BAD_GATEWAY.into_response()
        }
        .boxed()
    });
    assert_eq!(app.reconciled_without_key().await.status, 502);
    assert_eq!(steps(&database).await, 1);
    until("the run is swept", async || {
        app.handle.sweep().await.expect("a sweep");
        steps(&database).await == 0
    })
    .await;
}

async fn an_answer_that_is_not_kept_leaves_a_tombstone(kind: Kind) {
    let Two {
        first,
        second,
        database: _database,
    } = Two::start(kind).await;
    let runs = Gate::default();
    let long = "x".repeat(2 * 1024 * 1024);
    let (counted, answer) = (runs.clone(), long.clone());
    first.handler(move |_| {
        let (counted, answer) = (counted.clone(), answer.clone());
        async move {
            counted.arrive();
            answer.into_response()
        }
        .boxed()
    });
    assert_eq!(first.order("k").await.body, long.as_bytes());
    for app in [&first, &second] {
        app.order("k")
            .await
            .assert_refused(409, "response-not-kept");
    }
    assert_eq!(runs.arrived(), 1);
    assert_eq!(first.find("k").await.state, KeyState::ResponseNotKept);
}

async fn a_refusal_that_is_final_is_kept(kind: Kind) {
    let Two {
        first,
        second,
        database: _database,
    } = Two::start(kind).await;
    first.handler(|_| async { (StatusCode::PAYMENT_REQUIRED, "declined").into_response() }.boxed());
    let declined = first.order("k").await;
    assert_eq!(declined.status, 402);
    second.order("k").await.assert_replays(&declined);
}

stamp!(
    a_retry_gets_the_answer_of_the_first,
    a_repeat_in_flight_is_refused,
    another_request_is_told_so_before_and_after,
    a_repeat_may_wait_for_the_answer,
    tenants_and_keys_are_apart,
    a_client_that_leaves_changes_nothing,
    a_run_holds_no_connection,
    a_run_without_a_key_is_not_kept_for_long,
    a_run_without_a_key_leaves_no_question_open,
    an_answer_that_is_not_kept_leaves_a_tombstone,
    a_refusal_that_is_final_is_kept,
);
