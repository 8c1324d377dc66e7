//! What a request gets, by what is known of its key.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use idem_runtime::Overrides;
use idem_tests::{Answer, Kind, Setting, Setup, TestApp};

stamp!(
    a_retry_gets_the_first_answer_and_one_effect,
    another_request_with_a_finished_key_is_refused,
    the_same_request_in_flight_is_told_to_come_back,
    another_request_with_a_key_in_flight_is_refused_for_good,
    a_duplicate_that_waits_gets_the_first_answer,
    a_duplicate_that_has_waited_long_enough_is_told_to_come_back,
    a_time_without_an_end_is_a_long_one,
    a_duplicate_that_waits_runs_when_the_first_is_released,
    another_request_does_not_wait_to_be_refused,
    twenty_duplicates_at_once_run_once,
    twenty_patient_duplicates_all_get_the_one_answer,
    a_retry_finds_the_answer_before_the_first_client_has_it,
    a_refusal_can_be_rendered_by_the_application,
    safe_methods_run_without_a_key,
);

async fn a_retry_gets_the_first_answer_and_one_effect(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects").key("k").json("{}").await;
    assert_eq!(first.status, 201);
    assert!(
        !first.headers.contains_key("idempotent-replayed"),
        "{first:?}"
    );

    for _ in 0..3 {
        app.post("/effects")
            .key("k")
            .json("{}")
            .await
            .assert_replays(&first);
    }
    assert_eq!(app.effects().await, 1);
}

async fn another_request_with_a_finished_key_is_refused(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects").key("k").body("one").await;

    let other = app.post("/effects").key("k").body("two").await;
    other.assert_refused(422, "request-mismatch");
    assert!(!other.refusal().retryable);
    app.post("/effects")
        .key("k")
        .body("one")
        .await
        .assert_replays(&first);
    assert_eq!(app.effects().await, 1);
}

async fn the_same_request_in_flight_is_told_to_come_back(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let first = app.post("/effects").key("k").start();
    app.script.gate.until_arrived(1).await;

    let duplicate = app.post("/effects").key("k").await;
    duplicate.assert_refused(409, "in-progress");
    assert!(duplicate.refusal().retryable);

    app.script.gate.open();
    let first = first.answer().await;
    assert_eq!(first.status, 201);
    app.post("/effects").key("k").await.assert_replays(&first);
    assert_eq!(app.effects().await, 1);
}

async fn another_request_with_a_key_in_flight_is_refused_for_good(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let first = app.post("/effects").key("k").body("one").start();
    app.script.gate.until_arrived(1).await;

    let other = app.post("/effects").key("k").body("two").await;
    other.assert_refused(422, "request-mismatch");

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
    assert_eq!(app.effects().await, 1);
}

async fn a_duplicate_that_waits_gets_the_first_answer(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let first = app.post("/patient").key("k").start();
    app.script.gate.until_arrived(1).await;
    let duplicate = app.post("/patient").key("k").start();
    app.doors.entered.until_arrived(2).await;

    app.script.gate.open();
    let first = first.answer().await;
    assert_eq!(first.status, 201);
    duplicate.answer().await.assert_replays(&first);
    assert_eq!(app.effects().await, 1);
}

async fn a_duplicate_that_has_waited_long_enough_is_told_to_come_back(kind: Kind) {
    let a_moment = Overrides::new().wait(Duration::from_millis(50));
    let settings = vec![Setting::Scope("effects.patient", a_moment)];
    let app = TestApp::with(
        kind,
        Setup {
            settings,
            ..Setup::default()
        },
    )
    .await;
    app.script.gate.close();
    let first = app.post("/patient").key("k").start();
    app.script.gate.until_arrived(1).await;

    app.post("/patient")
        .key("k")
        .await
        .assert_refused(409, "in-progress");

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
}

async fn a_time_without_an_end_is_a_long_one(kind: Kind) {
    let for_ever = Overrides::new().wait(Duration::MAX).timeout(Duration::MAX);
    let settings = vec![Setting::Scope("effects.patient", for_ever)];
    let app = TestApp::with(
        kind,
        Setup {
            settings,
            ..Setup::default()
        },
    )
    .await;
    let first = app.post("/patient").key("k").await;
    assert_eq!(first.status, 201, "{first:?}");
    app.post("/patient").key("k").await.assert_replays(&first);
}

async fn a_duplicate_that_waits_runs_when_the_first_is_released(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .answer_in_turn([|| StatusCode::SERVICE_UNAVAILABLE, || StatusCode::CREATED]);
    app.script.gate.close();
    let first = app.post("/patient").key("k").start();
    app.script.gate.until_arrived(1).await;
    let duplicate = app.post("/patient").key("k").start();
    app.doors.entered.until_arrived(2).await;

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 503);
    let second = duplicate.answer().await;
    assert!(second.status == 201 && !second.is_replay(), "{second:?}");
    assert_eq!(app.effects().await, 1);
}

async fn another_request_does_not_wait_to_be_refused(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let first = app.post("/patient").key("k").body("one").start();
    app.script.gate.until_arrived(1).await;

    // The gate is closed: an answer means that it did not wait for the first.
    app.post("/patient")
        .key("k")
        .body("two")
        .await
        .assert_refused(422, "request-mismatch");

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
}

async fn at_once(app: &TestApp, path: &str, count: usize) -> Vec<Answer> {
    let started: Vec<_> = (0..count)
        .map(|_| app.post(path).key("k").start())
        .collect();
    let mut answers = Vec::new();
    for pending in started {
        answers.push(pending.answer().await);
    }
    answers
}

async fn twenty_duplicates_at_once_run_once(kind: Kind) {
    let app = TestApp::start(kind).await;
    for answer in at_once(&app, "/effects", 20).await {
        match answer.status {
            201 => {}
            409 => answer.assert_refused(409, "in-progress"),
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!(app.effects().await, 1);
}

async fn twenty_patient_duplicates_all_get_the_one_answer(kind: Kind) {
    let app = TestApp::start(kind).await;
    let answers = at_once(&app, "/patient", 20).await;
    let (replays, first): (Vec<_>, Vec<_>) = answers.into_iter().partition(Answer::is_replay);
    assert_eq!(first.len(), 1, "{first:?}");
    for replay in replays {
        replay.assert_replays(&first[0]);
    }
    assert_eq!(app.effects().await, 1);
}

async fn a_retry_finds_the_answer_before_the_first_client_has_it(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.doors.answer.close();
    let first = app.post("/effects").key("k").start();
    app.doors.answer.until_arrived(1).await;
    let retry = app.post("/effects").key("k").start();
    app.doors.answer.until_arrived(2).await;

    app.doors.answer.open();
    retry.answer().await.assert_replays(&first.answer().await);
    assert_eq!(app.effects().await, 1);
}

async fn a_refusal_can_be_rendered_by_the_application(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            settings: vec![Setting::PlainProblems],
            ..Setup::default()
        },
    )
    .await;
    let missing = app.post("/effects").await;
    assert_eq!(
        (missing.status, &missing.body[..]),
        (400, &b"refused: urn:idem:problem:key-missing"[..])
    );

    app.script.gate.close();
    let first = app.post("/effects").key("k").start();
    app.script.gate.until_arrived(1).await;
    let busy = app.post("/effects").key("k").await;
    assert_eq!(
        (busy.status, &busy.body[..]),
        (409, &b"refused: urn:idem:problem:in-progress"[..])
    );
    assert!(busy.headers.contains_key("retry-after"), "{busy:?}");

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
}

async fn safe_methods_run_without_a_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        let answer = app.request(method, "/effects").await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        app.request(method, "/effects")
            .await
            .assert_refused(400, "key-missing");
    }
    assert_eq!(app.script.gate.arrived(), 4);
    assert_eq!(app.keys().await, 0);
}
