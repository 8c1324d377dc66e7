//! Clients that leave, and servers that shut down.

use std::time::Duration;

use axum::http::StatusCode;
use idem_tests::wire::{Wire, post};
use idem_tests::{Kind, Setup, TestApp};
use tower_http::timeout::TimeoutLayer;

stamp!(
    the_handler_goes_on_when_the_client_closes,
    the_handler_goes_on_when_the_client_resets,
    the_handler_goes_on_when_the_client_half_closes,
    the_handler_goes_on_when_its_http2_stream_is_reset,
    the_handler_goes_on_when_an_outer_layer_gives_up,
    a_drain_waits_for_a_handler_whose_client_has_left,
    a_drain_that_takes_too_long_says_so,
    nothing_is_claimed_after_a_drain,
);

/// Sends a request, leaves in the middle of the handler, and asserts that a retry replays.
async fn assert_goes_on(kind: Kind, leave: impl AsyncFnOnce(Wire) -> Option<Wire>) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let request = post("/patient", &[("idempotency-key", b"k")], b"");
    let client = Wire::send(app.address, &request).await;
    app.script.gate.until_arrived(1).await;

    let _still_listening = leave(client).await;
    app.doors.departed.until_arrived(1).await;
    app.script.gate.open();

    let retry = app.post("/patient").key("k").await;
    assert!(retry.status == 201 && retry.is_replay(), "{retry:?}");
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn the_handler_goes_on_when_the_client_closes(kind: Kind) {
    assert_goes_on(kind, async |client| {
        client.finish();
        None
    })
    .await;
}

async fn the_handler_goes_on_when_the_client_resets(kind: Kind) {
    assert_goes_on(kind, async |client| {
        client.reset();
        None
    })
    .await;
}

async fn the_handler_goes_on_when_the_client_half_closes(kind: Kind) {
    assert_goes_on(kind, async |mut client| {
        client.half_close().await;
        Some(client)
    })
    .await;
}

/// The stream is gone and its connection is not: the retry goes by the same one.
async fn the_handler_goes_on_when_its_http2_stream_is_reset(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let client = client.build().expect("a client");
    let send = || {
        let request = client.post(format!("http://{}/patient", app.address));
        let request = request.header("authorization", "Bearer alice/1");
        request.header("idempotency-key", "k").send()
    };
    let lost = tokio::spawn(send());
    app.script.gate.until_arrived(1).await;
    lost.abort();
    app.doors.departed.until_arrived(1).await;
    app.script.gate.open();

    let retry = send().await.expect("an answer");
    assert_eq!(retry.version(), reqwest::Version::HTTP_2);
    assert_eq!(retry.status(), 201);
    assert_eq!(retry.headers()["idempotent-replayed"], "true");
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn the_handler_goes_on_when_an_outer_layer_gives_up(kind: Kind) {
    let layers = |router: axum::Router| {
        let limit = Duration::from_millis(50);
        router.layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            limit,
        ))
    };
    let app = TestApp::with(
        kind,
        Setup {
            layers,
            ..Setup::default()
        },
    )
    .await;
    app.script.gate.close();
    assert_eq!(app.post("/effects").key("k").await.status, 408);
    app.script.gate.open();

    assert!(app.handle.drain(Duration::from_mins(1)).await);
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn a_drain_waits_for_a_handler_whose_client_has_left(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let request = post("/effects", &[("idempotency-key", b"k")], b"");
    let client = Wire::send(app.address, &request).await;
    app.script.gate.until_arrived(1).await;
    client.finish();
    app.doors.departed.until_arrived(1).await;

    // No time to wait, but from here on nothing new begins.
    assert!(!app.handle.drain(Duration::ZERO).await);
    app.post("/effects")
        .key("other")
        .await
        .assert_refused(503, "shutting-down");

    let handle = app.handle.clone();
    let drain = tokio::spawn(async move { handle.drain(Duration::from_mins(1)).await });
    app.script.gate.open();
    assert!(drain.await.expect("no panic"));
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn a_drain_that_takes_too_long_says_so(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let first = app.post("/effects").key("k").start();
    app.script.gate.until_arrived(1).await;
    assert!(!app.handle.drain(Duration::ZERO).await);

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
    assert!(app.handle.drain(Duration::from_mins(1)).await);
}

async fn nothing_is_claimed_after_a_drain(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    assert!(app.handle.drain(Duration::from_mins(1)).await);
    for late in [app.post("/effects").key("new"), app.post("/optional")] {
        let answer = late.await;
        answer.assert_refused(503, "shutting-down");
        assert!(answer.refusal().retryable);
    }
    assert_eq!(app.script.gate.arrived(), 1);
}
