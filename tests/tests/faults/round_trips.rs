//! How often a request waits for PostgreSQL: the numbers of `ARCHITECTURE.md`, exactly.

use axum::http::StatusCode;
use idem_tests::{Kind, TestApp};

use crate::{behind_a_proxy, proxy};

stamp!(
    postgres: a_new_key_takes_four_round_trips_beside_the_handlers_own,
    a_replay_takes_one_round_trip_where_this_process_has_seen_the_key,
    a_replay_of_a_key_from_elsewhere_takes_two_round_trips_once,
    a_mismatch_takes_one_round_trip_where_this_process_has_seen_the_key,
    a_duplicate_in_another_process_takes_three_round_trips,
    another_request_in_another_process_takes_three_round_trips,
    a_duplicate_in_this_process_takes_none,
    a_kept_refusal_takes_one_round_trip_more,
    a_released_failure_takes_four_round_trips_beside_the_handlers_own,
);

/// Of the pool: before it lends a connection (unless `test_before_acquire(false)`), and behind the
/// answer when it has got the connection back.
const PING: &str = "ping";
const BEGIN: &str = "set transaction isolation level read committed";
const LOOK_UP: &str = "select current_setting('idem.gate') as gate";
const READ: &str = "select k.fingerprint";
const HANDLER: &str = "insert into effects";
const STORE: &str = "insert into idempotency_keys";
const UNDO: &str = "rollback to savepoint idem_work";
const COMMIT: &str = "commit";
const ROLLBACK: &str = "rollback";

/// What nobody waits for: where the transaction is only dropped, its end travels with the ping
/// behind the answer.
const BEHIND_A_LOOK_UP: [&str; 2] = [ROLLBACK, PING];

/// An application whose one connection has prepared every statement.
async fn warm() -> TestApp {
    let app = behind_a_proxy(Kind::Postgres).await;
    let first = app.post("/effects").key("warm").body("a body").await;
    assert_eq!(first.status, 201, "{first:?}");
    app.pool.until_idle().await;
    let _ = proxy(&app).round_trips();
    app
}

async fn assert_round_trips(app: &TestApp, expected: &[&str]) {
    app.pool.until_idle().await;
    let found = proxy(app).round_trips();
    let same = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, expected)| found.starts_with(expected));
    assert!(same, "expected {expected:#?}, found {found:#?}");
}

async fn a_new_key_takes_four_round_trips_beside_the_handlers_own(_: Kind) {
    let app = warm().await;
    assert_eq!(app.post("/effects").key("new").await.status, 201);
    let expected = [PING, BEGIN, LOOK_UP, HANDLER, STORE, COMMIT, PING];
    assert_round_trips(&app, &expected).await;
}

async fn a_replay_takes_one_round_trip_where_this_process_has_seen_the_key(_: Kind) {
    let app = warm().await;
    // The first use of the statement prepares it.
    let replay = app.post("/effects").key("warm").body("a body").await;
    assert!(replay.is_replay(), "{replay:?}");
    app.pool.until_idle().await;
    let _ = proxy(&app).round_trips();
    let replay = app.post("/effects").key("warm").body("a body").await;
    assert!(replay.is_replay(), "{replay:?}");
    assert_round_trips(&app, &[PING, READ, PING]).await;
}

async fn a_replay_of_a_key_from_elsewhere_takes_two_round_trips_once(_: Kind) {
    let app = warm().await;
    let elsewhere = app.beside().await;
    let first = elsewhere.post("/effects").key("k").body("a body").await;
    assert_eq!(first.status, 201);
    let _ = proxy(&app).round_trips();

    let replay = app.post("/effects").key("k").body("a body").await;
    assert!(replay.is_replay(), "{replay:?}");
    let expected = [&[PING, BEGIN, LOOK_UP], &BEHIND_A_LOOK_UP[..]].concat();
    assert_round_trips(&app, &expected).await;

    let again = app.post("/effects").key("k").body("a body").await;
    assert!(again.is_replay(), "{again:?}");
    let found = proxy(&app).round_trips();
    assert!(
        !found.iter().any(|sent| sent.starts_with(BEGIN)),
        "{found:#?}"
    );
}

async fn a_mismatch_takes_one_round_trip_where_this_process_has_seen_the_key(_: Kind) {
    let app = warm().await;
    let replay = app.post("/effects").key("warm").body("a body").await;
    assert!(replay.is_replay(), "{replay:?}");
    app.pool.until_idle().await;
    let _ = proxy(&app).round_trips();
    let other = app.post("/effects").key("warm").body("another body").await;
    other.assert_refused(422, "request-mismatch");
    assert_round_trips(&app, &[PING, READ, PING]).await;
}

/// Runs a key on another handle, as in another process, and sends a request meanwhile.
async fn assert_refused_from_elsewhere(body: &'static str, status: u16, slug: &str) {
    let app = warm().await;
    let elsewhere = app.beside().await;
    elsewhere.script.gate.close();
    let first = elsewhere.post("/effects").key("k").body("a body").start();
    elsewhere.script.gate.until_arrived(1).await;

    let refused = app.post("/effects").key("k").body(body).await;
    refused.assert_refused(status, slug);
    assert_round_trips(&app, &[PING, BEGIN, LOOK_UP, ROLLBACK, PING]).await;

    elsewhere.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
}

async fn a_duplicate_in_another_process_takes_three_round_trips(_: Kind) {
    assert_refused_from_elsewhere("a body", 409, "in-progress").await;
}

async fn another_request_in_another_process_takes_three_round_trips(_: Kind) {
    assert_refused_from_elsewhere("another body", 422, "request-mismatch").await;
}

async fn a_duplicate_in_this_process_takes_none(_: Kind) {
    let app = warm().await;
    app.script.gate.close();
    let first = app.post("/effects").key("k").start();
    app.script.gate.until_arrived(2).await;
    let _ = proxy(&app).round_trips();

    let duplicate = app.post("/effects").key("k").await;
    duplicate.assert_refused(409, "in-progress");
    let other = app.post("/effects").key("k").body("another body").await;
    other.assert_refused(422, "request-mismatch");
    assert_eq!(proxy(&app).round_trips(), Vec::<String>::new());

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
}

async fn a_kept_refusal_takes_one_round_trip_more(_: Kind) {
    let app = warm().await;
    app.script.answer(|| StatusCode::PAYMENT_REQUIRED);
    assert_eq!(app.post("/effects").key("new").await.status, 402);
    let expected = [PING, BEGIN, LOOK_UP, HANDLER, UNDO, STORE, COMMIT, PING];
    assert_round_trips(&app, &expected).await;
}

async fn a_released_failure_takes_four_round_trips_beside_the_handlers_own(_: Kind) {
    let app = warm().await;
    app.script.answer(|| StatusCode::BAD_GATEWAY);
    assert_eq!(app.post("/effects").key("new").await.status, 502);
    let expected = [PING, BEGIN, LOOK_UP, HANDLER, UNDO, ROLLBACK, PING];
    assert_round_trips(&app, &expected).await;
}
