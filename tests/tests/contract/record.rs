//! Which responses are kept, and what becomes of the writes behind them.

use axum::http::StatusCode;
use idem_tests::{Kind, TestApp};

stamp!(
    by_default_what_the_same_request_would_get_again_is_kept,
    record_success_keeps_successes_only,
    record_all_keeps_every_response,
    a_kept_refusal_keeps_the_answer_and_not_the_writes,
    a_released_failure_frees_the_key,
    a_handler_can_keep_what_would_be_released,
    what_is_kept_is_judged_by_the_status_that_is_sent,
    a_handler_can_keep_a_refusal_with_its_writes,
    a_handler_can_release_what_would_be_kept,
    a_rejection_before_the_handler_stores_nothing,
);

const SUCCESSES: [u16; 11] = [200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308];
const VERDICTS: [u16; 18] = [
    400, 402, 404, 405, 406, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422, 426, 431, 451,
];
const FOR_NOW: [u16; 11] = [401, 403, 407, 408, 409, 421, 423, 424, 425, 428, 429];
const FAILURES: [u16; 7] = [500, 501, 502, 503, 504, 507, 511];

/// Asserts for each status that it is kept, and with its writes, or not at all.
async fn assert_record(app: &TestApp, path: &str, statuses: &[u16], kept: bool) {
    for &status in statuses {
        app.script
            .answer(move || StatusCode::from_u16(status).expect("a status"));
        let before = app.effects().await;
        let key = format!("{path}-{status}");

        let first = app.post(path).key(&key).await;
        let retry = app.post(path).key(&key).await;

        assert_eq!(first.status, status, "{path}");
        if kept {
            retry.assert_replays(&first);
        } else {
            assert_eq!((retry.status, retry.is_replay()), (status, false), "{path}");
        }
        let writes = i64::from(status < 400);
        assert_eq!(
            app.effects().await - before,
            writes,
            "effects of {status} at {path}"
        );
    }
}

async fn by_default_what_the_same_request_would_get_again_is_kept(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_record(&app, "/effects", &SUCCESSES, true).await;
    assert_record(&app, "/effects", &VERDICTS, true).await;
    assert_record(&app, "/effects", &FOR_NOW, false).await;
    assert_record(&app, "/effects", &FAILURES, false).await;
}

async fn record_success_keeps_successes_only(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_record(&app, "/success", &SUCCESSES, true).await;
    assert_record(&app, "/success", &VERDICTS, false).await;
    assert_record(&app, "/success", &FOR_NOW, false).await;
    assert_record(&app, "/success", &FAILURES, false).await;
}

async fn record_all_keeps_every_response(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_record(&app, "/all", &SUCCESSES, true).await;
    assert_record(&app, "/all", &VERDICTS, true).await;
    assert_record(&app, "/all", &FOR_NOW, true).await;
    assert_record(&app, "/all", &FAILURES, true).await;
}

async fn a_kept_refusal_keeps_the_answer_and_not_the_writes(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .answer(|| (StatusCode::PAYMENT_REQUIRED, "declined"));
    let declined = app.post("/effects").key("k").await;
    assert_eq!(
        (declined.status, &declined.body[..]),
        (402, &b"declined"[..])
    );

    // The card would work now, and yet this key has its answer.
    app.script.answer(|| StatusCode::CREATED);
    app.post("/effects")
        .key("k")
        .await
        .assert_replays(&declined);
    assert_eq!((app.effects().await, app.keys().await), (0, 1));
    assert_eq!(app.script.gate.arrived(), 1);
}

async fn a_released_failure_frees_the_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .answer(|| (StatusCode::SERVICE_UNAVAILABLE, "the bank is closed"));
    let failed = app.post("/effects").key("k").await;
    assert_eq!(
        (failed.status, &failed.body[..]),
        (503, &b"the bank is closed"[..])
    );
    app.assert_untouched().await;

    app.script.answer(|| StatusCode::CREATED);
    let retry = app.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    assert_eq!(app.effects().await, 1);
}

async fn a_handler_can_keep_what_would_be_released(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| StatusCode::CONFLICT);
    let first = app.post("/keep").key("k").await;
    assert_eq!(first.status, 409);
    app.post("/keep").key("k").await.assert_replays(&first);
    assert_eq!((app.effects().await, app.keys().await), (0, 1));
}

async fn what_is_kept_is_judged_by_the_status_that_is_sent(kind: Kind) {
    let app = TestApp::start(kind).await;
    // The handler's work says 201, and the tuple around it 409.
    let first = app.post("/keep-as-conflict").key("k").await;
    assert_eq!((first.status, app.effects().await), (409, 0));
    app.post("/keep-as-conflict")
        .key("k")
        .await
        .assert_replays(&first);
}

async fn a_handler_can_keep_a_refusal_with_its_writes(kind: Kind) {
    let app = TestApp::start(kind).await;
    for (status, effects) in [(StatusCode::FORBIDDEN, 1), (StatusCode::BAD_GATEWAY, 2)] {
        app.script.answer(move || status);
        let first = app.post("/keep-with-writes").key(status.as_str()).await;
        assert_eq!(first.status, status.as_u16());
        app.post("/keep-with-writes")
            .key(status.as_str())
            .await
            .assert_replays(&first);
        assert_eq!(app.effects().await, effects);
    }
}

async fn a_handler_can_release_what_would_be_kept(kind: Kind) {
    let app = TestApp::start(kind).await;
    for _ in 0..2 {
        let answer = app.post("/release").key("k").await;
        assert!(answer.status == 201 && !answer.is_replay(), "{answer:?}");
    }
    app.assert_untouched().await;
}

async fn a_rejection_before_the_handler_stores_nothing(kind: Kind) {
    let app = TestApp::start(kind).await;
    for (content_type, body, status) in [
        ("application/json", "{", 400),
        ("application/json", "[", 400),
        ("text/plain", "{}", 415),
    ] {
        let request = app
            .post("/json")
            .key("k")
            .header("content-type", content_type)
            .body(body);
        assert_eq!(request.await.status, status);
    }
    app.assert_untouched().await;

    let corrected = app.post("/json").key("k").json("{}").await;
    assert_eq!(corrected.status, 201);
    app.post("/json")
        .key("k")
        .json("{}")
        .await
        .assert_replays(&corrected);
}
