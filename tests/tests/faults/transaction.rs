//! PostgreSQL ends the handler's transaction, or a statement in it.

use idem_tests::{Kind, TestApp};

stamp!(
    postgres: a_deadlock_gives_one_an_answer_to_retry_and_the_other_a_success,
    a_serialization_failure_in_the_handler_may_be_retried,
    a_statement_out_of_time_that_the_handler_ignores_is_no_success,
    a_transaction_that_idles_for_too_long_is_no_success,
    a_lock_that_is_not_available_is_no_success,
);

/// Sends a request whose handler swallows the error of its statements and answers 201.
async fn assert_no_success(app: &TestApp) {
    let answer = app.post("/effects").key("k").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.refusal().retryable);
    app.assert_untouched().await;

    app.script.statements([]);
    let retry = app.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn a_deadlock_gives_one_an_answer_to_retry_and_the_other_a_success(kind: Kind) {
    let app = TestApp::start(kind).await;
    let other = app.beside().await;
    app.database
        .execute("insert into marks values (1), (2)")
        .await;
    let lock = |app: &TestApp, first, second| {
        // The advisory lock makes each wait until the other has its first row.
        app.script.statements([
            first,
            "select pg_advisory_xact_lock_shared(7)",
            "set local deadlock_timeout = '10ms'",
            second,
        ]);
    };
    let (one, two) = (
        "select from marks where mark = 1 for update",
        "select from marks where mark = 2 for update",
    );
    lock(&app, one, two);
    lock(&other, two, one);
    let holder = app.beside().await;
    holder
        .script
        .statements(["select pg_advisory_xact_lock(7)"]);
    holder.script.gate.close();
    let holding = holder.post("/effects").key("holder").start();
    holder.script.gate.until_arrived(1).await;
    let started = [
        app.post("/effects").key("one").start(),
        other.post("/effects").key("two").start(),
    ];
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
                   and database = (select oid from pg_database where datname = current_database())";
    while app.database.number(waiting).await < 2 {
        tokio::task::yield_now().await;
    }
    holder.script.gate.open();
    assert_eq!(holding.answer().await.status, 201);

    let mut statuses = Vec::new();
    for pending in started {
        let answer = pending.answer().await;
        if answer.status == 503 {
            answer.assert_refused(503, "transaction-aborted");
        }
        statuses.push(answer.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 503]);
    assert_eq!((app.effects().await, app.keys().await), (2, 2));

    app.script.statements([]);
    for key in ["one", "two"] {
        assert_eq!(app.post("/effects").key(key).await.status, 201);
    }
    assert_eq!(app.effects().await, 3);
}

async fn a_serialization_failure_in_the_handler_may_be_retried(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.statements([
        "do $$ begin raise exception 'no' using errcode = 'serialization_failure'; end $$",
    ]);
    assert_no_success(&app).await;
}

async fn a_statement_out_of_time_that_the_handler_ignores_is_no_success(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .statements(["set local statement_timeout = '5ms'", "select pg_sleep(60)"]);
    assert_no_success(&app).await;
}

async fn a_transaction_that_idles_for_too_long_is_no_success(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .statements(["set local idle_in_transaction_session_timeout = '5ms'"]);
    app.script.gate.close();
    let idle = app.post("/effects").key("k").start();
    app.script.gate.until_arrived(1).await;
    app.until_no_transaction_is_open().await;
    app.script.gate.open();
    let answer = idle.answer().await;
    assert_eq!((answer.status, answer.refusal().retryable), (503, true));
    app.assert_untouched().await;

    app.script.statements([]);
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn a_lock_that_is_not_available_is_no_success(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.database.execute("insert into marks values (1)").await;
    let holder = app.beside().await;
    holder.script.statements(["update marks set mark = mark"]);
    holder.script.gate.close();
    let holding = holder.post("/effects").key("holder").start();
    holder.script.gate.until_arrived(1).await;

    app.script
        .statements(["select from marks for update nowait"]);
    let answer = app.post("/effects").key("k").await;
    answer.assert_refused(503, "transaction-aborted");

    app.script.statements([]);
    holder.script.gate.open();
    assert_eq!(holding.answer().await.status, 201);
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    assert_eq!((app.effects().await, app.keys().await), (2, 2));
}
