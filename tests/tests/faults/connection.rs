//! The connection to PostgreSQL breaks: before a statement reaches the server, after the server
//! has run it, or without anybody noticing.

use std::time::Duration;

use axum::http::StatusCode;
use idem_tests::proxy::Fault;
use idem_tests::{Answer, Gate, Kind, Setup, TestApp};

use crate::{behind_a_proxy, proxy};

stamp!(
    postgres: a_connection_lost_before_the_handler_is_a_store_that_does_not_answer,
    a_connection_lost_while_the_key_is_stored_rolls_back,
    a_connection_lost_in_the_handler_rolls_back,
    a_connection_lost_while_a_refusal_is_kept_rolls_back,
    a_connection_lost_while_a_failure_is_released_changes_nothing,
    a_slow_commit_is_waited_for,
    a_host_that_vanishes_holds_its_key_only_as_long_as_its_time_out,
    a_server_that_goes_silent_keeps_no_key_in_memory,
    a_server_that_goes_silent_leaves_no_request_without_a_key_waiting,
    what_was_asked_before_an_answer_is_no_news_after_it,
);

type Cut = fn() -> Fault;

const BEFORE_AND_AFTER: [Cut; 2] = [|| Fault::CutBefore, || Fault::CutAfter];

/// Sends a request whose connection ends at a statement, and returns its answer.
async fn cut(app: &TestApp, statement: &'static str, fault: Fault) -> Answer {
    proxy(app).fail(statement, fault);
    let answer = app.post("/effects").key("k").await;
    assert!(!proxy(app).is_armed(), "`{statement}` was never sent");
    answer
}

/// The key is free: a retry runs, once.
async fn assert_free(app: &TestApp) {
    // The server hears of the cut a moment later.
    app.until_no_transaction_is_open().await;
    app.assert_untouched().await;
    app.script.answer(|| StatusCode::CREATED);
    let retry = app.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    assert!(app.post("/effects").key("k").await.is_replay());
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn a_connection_lost_before_the_handler_is_a_store_that_does_not_answer(kind: Kind) {
    for statement in ["set transaction", "select current_setting('idem.gate')"] {
        for fault in BEFORE_AND_AFTER {
            let app = behind_a_proxy(kind).await;
            let answer = cut(&app, statement, fault()).await;
            answer.assert_refused(503, "store-unavailable");
            assert_eq!(app.script.gate.arrived(), 0, "the handler ran");
            assert_free(&app).await;
        }
    }
}

async fn a_connection_lost_in_the_handler_rolls_back(kind: Kind) {
    for fault in BEFORE_AND_AFTER {
        let app = behind_a_proxy(kind).await;
        // The handler's own answer to its own failure.
        assert_eq!(cut(&app, "insert into effects", fault()).await.status, 503);
        assert_free(&app).await;
    }
}

async fn a_connection_lost_while_the_key_is_stored_rolls_back(kind: Kind) {
    for fault in BEFORE_AND_AFTER {
        let app = behind_a_proxy(kind).await;
        let answer = cut(&app, "insert into idempotency_keys", fault()).await;
        assert_eq!((answer.status, answer.refusal().retryable), (503, true));
        assert_free(&app).await;
    }
}

async fn a_connection_lost_while_a_refusal_is_kept_rolls_back(kind: Kind) {
    for statement in [
        "rollback to savepoint idem_work",
        "insert into idempotency_keys",
    ] {
        for fault in BEFORE_AND_AFTER {
            let app = behind_a_proxy(kind).await;
            app.script.answer(|| StatusCode::PAYMENT_REQUIRED);
            let answer = cut(&app, statement, fault()).await;
            assert_eq!((answer.status, answer.refusal().retryable), (503, true));
            assert_free(&app).await;
        }
    }
}

async fn a_connection_lost_while_a_failure_is_released_changes_nothing(kind: Kind) {
    for statement in ["rollback to savepoint idem_work", "rollback"] {
        for fault in BEFORE_AND_AFTER {
            let app = behind_a_proxy(kind).await;
            app.script.answer(|| StatusCode::BAD_GATEWAY);
            assert_eq!(cut(&app, statement, fault()).await.status, 502);
            assert_free(&app).await;
        }
    }
}

async fn a_slow_commit_is_waited_for(kind: Kind) {
    let delay = Gate::default();
    for fault in [Fault::Delay(delay.clone()), Fault::Hold(delay.clone())] {
        let app = behind_a_proxy(kind).await;
        delay.close();
        proxy(&app).fail("commit", fault);
        let first = app.post("/patient").key("k").start();
        delay.until_arrived(delay.arrived().max(1)).await;
        let duplicate = app.post("/effects").key("other").start();
        delay.open();
        let first = first.answer().await;
        assert_eq!(first.status, 201);
        assert_eq!(duplicate.answer().await.status, 201);
        app.post("/patient").key("k").await.assert_replays(&first);
        assert_eq!(app.effects().await, 2);
    }
}

async fn a_host_that_vanishes_holds_its_key_only_as_long_as_its_time_out(kind: Kind) {
    let app = with_two_connections(kind).await;
    let elsewhere = app.beside().await;
    // A handler of two seconds; the server gives it five more.
    proxy(&app).fail("insert into idempotency_keys", Fault::Blackhole);
    let lost = app.post("/hasty").key("k").start();
    app.script.gate.until_arrived(1).await;
    let meanwhile = elsewhere.post("/hasty").key("k").await;
    meanwhile.assert_refused(409, "in-progress");

    app.until_no_transaction_is_open().await;
    let retry = elsewhere.post("/hasty").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");

    // Nobody tells the first process that its connection is dead, and it finds the truth anyway.
    let answer = lost.answer().await;
    answer.assert_replays(&retry);
    app.post("/hasty").key("k").await.assert_replays(&retry);
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn a_server_that_goes_silent_keeps_no_key_in_memory(kind: Kind) {
    let at = async |statement| {
        let app = with_two_connections(kind).await;
        proxy(&app).fail(statement, Fault::Blackhole);
        let silent = app.post("/hasty").key("k").await;
        silent.assert_refused(503, "store-unavailable");
        assert_eq!(app.script.gate.arrived(), 0, "the handler ran");

        app.until_no_transaction_is_open().await;
        let retry = app.post("/hasty").key("k").await;
        assert_eq!(retry.status, 201, "{statement}: {retry:?}");
        assert_eq!((app.effects().await, app.keys().await), (1, 1));
        app
    };
    // The end of one holds up the thread, so both end when both are done.
    let _apps = tokio::join!(
        at("set transaction"),
        at("select current_setting('idem.gate')")
    );
}

async fn a_server_that_goes_silent_leaves_no_request_without_a_key_waiting(kind: Kind) {
    let at = async |statement, problem, runs| {
        let app = with_two_connections(kind).await;
        proxy(&app).fail(statement, Fault::Blackhole);
        let silent = app.post("/optional").start().answer();
        let silent = tokio::time::timeout(Duration::from_mins(1), silent).await;
        let silent = silent.expect("an answer");
        silent.assert_refused(503, problem);
        assert!(silent.refusal().retryable);
        assert_eq!(app.script.gate.arrived(), runs, "{statement}");
        assert_eq!(app.post("/optional").await.status, 201);
        app
    };
    let _apps = tokio::join!(
        at("set transaction", "store-unavailable", 0),
        at("release savepoint idem_work", "outcome-unknown", 1),
        at("commit", "outcome-unknown", 1),
    );
}

/// A duplicate asks whose the key is, and hears of it late. Meanwhile the key is done elsewhere, and
/// who comes here knowing that is not told that it is in progress.
async fn what_was_asked_before_an_answer_is_no_news_after_it(kind: Kind) {
    let app = with_two_connections(kind).await;
    let elsewhere = app.beside().await;
    elsewhere.script.gate.close();
    let first = elsewhere.post("/effects").key("k").start();
    elsewhere.script.gate.until_arrived(1).await;
    let reply = Gate::default();
    reply.close();
    proxy(&app).fail(
        "select current_setting('idem.gate')",
        Fault::Hold(reply.clone()),
    );
    let early = app.post("/effects").key("k").start();
    reply.until_arrived(1).await;

    elsewhere.script.gate.open();
    let first = first.answer().await;
    let late: Vec<_> = (0..5)
        .map(|_| app.post("/effects").key("k").start())
        .collect();
    app.doors.entered.until_arrived(1 + late.len()).await;
    reply.open();
    early.answer().await.assert_refused(409, "in-progress");
    for late in late {
        late.answer().await.assert_replays(&first);
    }
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn with_two_connections(kind: Kind) -> TestApp {
    let setup = Setup {
        proxy: true,
        pool_size: 2,
        ..Setup::default()
    };
    TestApp::with(kind, setup).await
}
