//! What the other options of the attribute do.

use std::collections::HashSet;

use axum::http::StatusCode;
use idem_tests::{Kind, TestApp};
use uuid::Uuid;

stamp!(
    without_a_required_key_each_request_runs,
    an_unprotected_run_that_fails_is_rolled_back,
    an_optional_key_still_protects,
    an_optional_key_must_still_be_a_key,
    the_key_can_come_from_another_header,
    the_key_can_come_from_the_arguments,
    a_key_from_the_arguments_must_be_a_key,
    the_store_can_come_from_the_arguments,
    a_claim_says_what_it_is,
    a_derived_key_is_stable_and_hides_the_key,
);

async fn without_a_required_key_each_request_runs(kind: Kind) {
    let app = TestApp::start(kind).await;
    for _ in 0..2 {
        let answer = app.post("/optional").await;
        assert!(answer.status == 201 && !answer.is_replay(), "{answer:?}");
    }
    assert_eq!((app.effects().await, app.keys().await), (2, 0));
}

async fn an_unprotected_run_that_fails_is_rolled_back(kind: Kind) {
    let app = TestApp::start(kind).await;
    for status in [
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::PAYMENT_REQUIRED,
    ] {
        app.script.answer(move || status);
        assert_eq!(app.post("/optional").await.status, status);
    }
    app.script
        .answer(|| -> StatusCode { panic!("as the test wants") });
    app.post("/optional")
        .await
        .assert_refused(500, "handler-panicked");
    app.assert_untouched().await;
}

async fn an_optional_key_still_protects(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/optional").key("k").await;
    app.post("/optional").key("k").await.assert_replays(&first);
    assert_eq!(app.effects().await, 1);
}

async fn an_optional_key_must_still_be_a_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.post("/optional")
        .key("")
        .await
        .assert_refused(400, "key-invalid");
    app.post("/optional")
        .key("k")
        .key("k")
        .await
        .assert_refused(400, "key-invalid");
    app.assert_untouched().await;
}

async fn the_key_can_come_from_another_header(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.post("/webhook")
        .key("k")
        .await
        .assert_refused(400, "key-missing");
    let first = app
        .post("/webhook")
        .header("webhook-id", "msg_1")
        .body("{}")
        .await;
    assert_eq!(first.status, 201);
    let retry = app
        .post("/webhook")
        .header("Webhook-Id", "msg_1")
        .key("ignored")
        .body("{}");
    retry.await.assert_replays(&first);
}

async fn the_key_can_come_from_the_arguments(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/event").json(r#"{"id": "evt_1"}"#).await;
    assert_eq!(first.status, 201);
    let retry = app
        .post("/event")
        .key("ignored")
        .json(r#"{ "id" : "evt_1" }"#);
    retry.await.assert_replays(&first);
    let changed = app
        .post("/event")
        .json(r#"{"id": "evt_1", "amount": 5}"#)
        .await;
    changed.assert_refused(422, "request-mismatch");
    assert_eq!(
        app.post("/event").json(r#"{"id": "evt_2"}"#).await.status,
        201
    );
}

async fn a_key_from_the_arguments_must_be_a_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    for body in [
        r#"{"id": ""}"#,
        r#"{"id": "\u0000"}"#,
        "{\"id\": \"schl\u{fc}ssel\"}",
    ] {
        app.post("/event")
            .json(body)
            .await
            .assert_refused(400, "key-invalid");
    }
    let too_long = format!(r#"{{"id": "{}"}}"#, "k".repeat(256));
    app.post("/event")
        .json(too_long)
        .await
        .assert_refused(400, "key-invalid");
    app.assert_untouched().await;
}

async fn the_store_can_come_from_the_arguments(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/elsewhere").key("k").await;
    assert_eq!(first.status, 201);
    app.post("/elsewhere").key("k").await.assert_replays(&first);
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

#[derive(serde::Deserialize)]
struct Facts {
    key: Option<String>,
    scope: String,
    tenant: String,
    attempt: u32,
    derived: [String; 2],
}

async fn a_claim_says_what_it_is(kind: Kind) {
    let app = TestApp::start(kind).await;
    let facts: Facts = app.post("/claim").key("\"k-1\"").await.json();
    assert_eq!(facts.key.as_deref(), Some("k-1"));
    assert_eq!(
        (facts.scope.as_str(), facts.tenant.as_str()),
        ("effects.claim", "alice")
    );
    assert_eq!(facts.attempt, 1);
}

async fn a_derived_key_is_stable_and_hides_the_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    // Released, so that the same claim is made twice.
    app.script.answer(|| StatusCode::CREATED);
    let derived = async |account: &str, key: &str| {
        let answer = app.post("/claim").account(account).key(key).await;
        let facts: Facts = answer.json();
        facts
            .derived
            .map(|derived| derived.parse::<Uuid>().expect("a UUID"))
    };
    let first = derived("alice", "k").await;
    assert!(first.iter().all(|uuid| uuid.get_version_num() == 8));
    app.expire_keys().await;
    assert_eq!(derived("alice", "k").await, first);

    let others = [
        derived("alice", "k2").await,
        derived("bob", "k").await,
        derived("a:b", "c").await,
        derived("a", "b:c").await,
        first,
    ];
    let all: HashSet<Uuid> = others.into_iter().flatten().collect();
    assert_eq!(all.len(), 10);
}
