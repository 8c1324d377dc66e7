//! Open questions: while a step is begun and not finished under `on_takeover = "reconcile"`, the key
//! does not expire, in whatever order renewals and ends of steps come through.

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::FutureExt;
use idem_runtime::KeyStatus;
use idem_tests::leased::LeasedApp;
use idem_tests::proxy::Fault;
use idem_tests::{Gate, Kind};

use crate::line::Line;
use crate::until;

stamp!(
    postgres: a_renewal_that_a_step_overtakes_keeps_the_question_open,
    two_steps_that_end_at_once_leave_no_question_open,
    an_end_that_comes_through_twice_ends_one_step,
    a_beginning_that_comes_through_after_the_end_opens_no_question,
);

/// A renewal that is on its way while a step begins would say that nothing is open, and the key could
/// expire with the question: it looks once more.
async fn a_renewal_that_a_step_overtakes_keeps_the_question_open(kind: Kind) {
    let lease = Duration::from_secs(15);
    let Line {
        app,
        proxy,
        database,
    } = Line::start(kind, lease).await;
    let observer = LeasedApp::start(&database).await;
    let (reserved, charging) = (
        app.order.gates.at("reserved"),
        app.order.gates.at("charging"),
    );
    reserved.close();
    charging.close();
    let running = app.reconciled("k").start();
    reserved.until_arrived(1).await;
    let late = Gate::default();
    late.close();
    proxy.fail(
        "update idempotency_keys set locked_until",
        Fault::Delay(late.clone()),
    );
    late.until_arrived(1).await;
    reserved.open();
    charging.until_arrived(1).await;
    let stays = |key: &KeyStatus| key.expires_at > SystemTime::now() + Duration::from_hours(24);
    let begun = observer.find_reconciled("k").await;
    assert!(stays(&begun), "{begun:?}");

    let sent = SystemTime::now();
    late.open();
    let mut key = observer.find_reconciled("k").await;
    while !(stays(&key) && key.locked_until > begun.locked_until) {
        key = observer.find_reconciled("k").await;
    }
    let next_beat = sent + lease / 3;
    assert!(
        key.locked_until.expect("a lease") < next_beat + lease,
        "only the next beat has mended it: {key:?}"
    );
    charging.open();
    assert_eq!(running.answer().await.status, 201);
}

/// Each finds the other's step open and keeps the key for it: who is last looks once more.
async fn two_steps_that_end_at_once_leave_no_question_open(kind: Kind) {
    let Line {
        app,
        proxy,
        database,
    } = Line::start(kind, Duration::from_mins(5)).await;
    let observer = LeasedApp::start(&database).await;
    let (first, second, done) = (Gate::default(), Gate::default(), Gate::default());
    let gates = (first.clone(), second.clone(), done.clone());
    app.handler(move |lease| {
        let (first, second, done) = gates.clone();
        async move {
            let call = |gate: Gate| {
                async move || {
                    gate.pass().await;
                    Ok::<_, StatusCode>(())
                }
            };
            let (one, two) = tokio::join!(
                lease.step("first", call(first)),
                lease.step("second", call(second)),
            );
            one.and(two).expect("both are recorded");
            done.pass().await;
            StatusCode::CREATED.into_response()
        }
        .boxed()
    });
    for gate in [&first, &second, &done] {
        gate.close();
    }
    let running = app.reconciled("k").start();
    first.until_arrived(1).await;
    second.until_arrived(1).await;
    let late = Gate::default();
    late.close();
    proxy.fail(
        "update idempotency_keys set locked_until",
        Fault::Delay(late.clone()),
    );
    first.open();
    late.until_arrived(1).await;
    second.open();
    until("the second step is recorded", async || {
        let steps = observer.find_reconciled("k").await.steps;
        steps.iter().filter(|step| step.finished).count() == 1
    })
    .await;
    late.open();
    done.until_arrived(1).await;
    let key = observer.find_reconciled("k").await;
    let day = Duration::from_hours(24);
    assert!(key.expires_at < SystemTime::now() + day, "{key:?}");
    done.open();
    assert_eq!(running.answer().await.status, 201);
}

/// The first try at an end comes through after the second: the other step is as open as before.
async fn an_end_that_comes_through_twice_ends_one_step(kind: Kind) {
    let Line {
        app,
        proxy,
        database,
    } = Line::start(kind, Duration::from_secs(15)).await;
    let observer = LeasedApp::start(&database).await;
    let (first, second, recorded) = (Gate::default(), Gate::default(), Gate::default());
    let gates = (first.clone(), second.clone(), recorded.clone());
    app.handler(move |lease| {
        let (first, second, recorded) = gates.clone();
        async move {
            let call = |gate: Gate| {
                async move || {
                    gate.pass().await;
                    Ok::<_, StatusCode>(())
                }
            };
            let one = async {
                let one = lease.step("first", call(first)).await;
                recorded.arrive();
                one
            };
            let (one, two) = tokio::join!(one, lease.step("second", call(second)));
            one.and(two).expect("both are recorded");
            StatusCode::CREATED.into_response()
        }
        .boxed()
    });
    first.close();
    second.close();
    let running = app.reconciled("k").start();
    first.until_arrived(1).await;
    second.until_arrived(1).await;
    let late = Gate::default();
    late.close();
    proxy.fail("commit", Fault::Hold(late.clone()));
    first.open();
    late.until_arrived(1).await;
    recorded.until_arrived(1).await;
    late.open();

    // What the next beat says of the ttl is what this process believes.
    let before = observer.find_reconciled("k").await;
    let mut key = before.clone();
    while key.locked_until == before.locked_until {
        key = observer.find_reconciled("k").await;
    }
    let day = Duration::from_hours(24);
    assert!(key.expires_at > SystemTime::now() + day, "{key:?}");
    second.open();
    assert_eq!(running.answer().await.status, 201);
}

/// The first try at a beginning comes through when the step is done: it takes nothing for lost, and
/// does not keep the key for an answered question.
async fn a_beginning_that_comes_through_after_the_end_opens_no_question(kind: Kind) {
    let Line {
        app,
        proxy,
        database,
    } = Line::start(kind, Duration::from_mins(5)).await;
    let observer = LeasedApp::start(&database).await;
    let (reserved, recorded, late) = (
        app.order.gates.at("reserved"),
        app.order.gates.at("recorded"),
        Gate::default(),
    );
    for gate in [reserved, recorded, &late] {
        gate.close();
    }
    let running = app.reconciled("k").start();
    reserved.until_arrived(1).await;
    proxy.fail(
        "update idempotency_keys set locked_until",
        Fault::Delay(late.clone()),
    );
    reserved.open();
    recorded.until_arrived(1).await;
    let ended = observer.find_reconciled("k").await;
    late.open();
    until("the late renewals are over", async || {
        let key = observer.find_reconciled("k").await;
        let stays = key.expires_at > SystemTime::now() + Duration::from_hours(24);
        key.locked_until > ended.locked_until && !stays
    })
    .await;
    recorded.open();
    assert_eq!(running.answer().await.status, 201);
}
