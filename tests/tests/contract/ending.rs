//! Handlers that end in another way than by returning an answer the engine can keep.

use axum::http::StatusCode;
use axum::response::Response;
use idem_tests::{Kind, Setup, TestApp};

stamp!(
    a_panic_frees_the_key_and_answers_500,
    a_handler_past_its_time_is_rolled_back,
    a_handler_that_commits_is_found_out,
    a_handler_that_rolls_back_is_found_out,
    a_handler_that_begins_anew_is_found_out,
    a_handler_that_ends_its_transaction_and_refuses_is_found_out,
    a_handler_that_ends_its_transaction_without_a_key_is_found_out,
    a_handler_that_ends_its_transaction_leaves_a_connection_that_works,
    a_handler_that_ends_its_transaction_and_breaks_off_is_found_out,
    a_unique_violation_can_be_answered_and_kept,
    nested_transactions_work,
);

stamp!(
    postgres: a_success_over_an_aborted_transaction_is_no_success,
    a_nested_transaction_that_cannot_begin_is_not_the_handlers_end,
);

async fn a_panic_frees_the_key_and_answers_500(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .answer(|| -> Response { panic!("as the test wants") });
    let panicked = app.post("/effects").key("k").await;
    panicked.assert_refused(500, "handler-panicked");
    assert!(panicked.refusal().retryable);
    let said = String::from_utf8_lossy(&panicked.body).into_owned();
    assert!(
        !said.contains("as the test wants"),
        "shows the panic: {said}"
    );
    app.assert_untouched().await;

    app.script.answer(|| StatusCode::CREATED);
    let retry = app.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
}

async fn a_handler_past_its_time_is_rolled_back(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let late = app.post("/hasty").key("k").await;
    late.assert_refused(503, "timed-out");
    assert!(late.refusal().retryable);
    app.assert_untouched().await;

    app.script.gate.open();
    assert_eq!(app.post("/hasty").key("k").await.status, 201);
    assert_eq!(app.effects().await, 1);
}

/// Asserts that what the handler does to its transaction gives an error and no record.
async fn assert_found_out(kind: Kind, statements: &[&'static str], status: StatusCode) {
    let app = TestApp::start(kind).await;
    app.script.statements(statements.iter().copied());
    app.script.answer(move || status);
    let answer = app.post("/effects").key("k").await;
    answer.assert_refused(500, "ended-by-handler");
    assert_eq!(app.keys().await, 0);
}

async fn a_handler_that_commits_is_found_out(kind: Kind) {
    assert_found_out(kind, &["commit"], StatusCode::CREATED).await;
}

async fn a_handler_that_rolls_back_is_found_out(kind: Kind) {
    assert_found_out(kind, &["rollback"], StatusCode::CREATED).await;
}

async fn a_handler_that_begins_anew_is_found_out(kind: Kind) {
    assert_found_out(kind, &["commit", "begin"], StatusCode::CREATED).await;
    assert_found_out(kind, &["rollback", "begin"], StatusCode::CREATED).await;
}

async fn a_handler_that_ends_its_transaction_and_refuses_is_found_out(kind: Kind) {
    assert_found_out(kind, &["commit"], StatusCode::PAYMENT_REQUIRED).await;
    assert_found_out(kind, &["commit", "begin"], StatusCode::PAYMENT_REQUIRED).await;
}

async fn a_handler_that_ends_its_transaction_without_a_key_is_found_out(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.statements(["commit"]);
    for status in [
        StatusCode::CREATED,
        StatusCode::PAYMENT_REQUIRED,
        StatusCode::BAD_GATEWAY,
    ] {
        app.script.answer(move || status);
        let answer = app.post("/optional").await;
        answer.assert_refused(500, "ended-by-handler");
    }
}

/// A retry would do again what it has committed, so nobody is told that it may.
async fn a_handler_that_ends_its_transaction_and_breaks_off_is_found_out(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.statements(["commit"]);
    app.script
        .answer(|| -> Response { panic!("as the test wants") });
    for panics in [app.post("/effects").key("k"), app.post("/optional")] {
        let answer = panics.await;
        answer.assert_refused(500, "ended-by-handler");
        assert!(!answer.refusal().retryable);
    }
    app.script.gate.close();
    let late = app.post("/hasty").key("k").await;
    late.assert_refused(500, "ended-by-handler");
    assert_eq!(app.keys().await, 0);
    app.script.gate.open();
}

async fn a_handler_that_ends_its_transaction_leaves_a_connection_that_works(kind: Kind) {
    for statements in [&["commit"][..], &["rollback"], &["commit", "begin"]] {
        let app = TestApp::with(
            kind,
            Setup {
                pool_size: 1,
                ..Setup::default()
            },
        )
        .await;
        app.script.statements(statements.iter().copied());
        assert_eq!(app.post("/effects").key("k").await.status, 500);
        let before = app.effects().await;

        // The one connection of the pool has no open transaction that swallows this.
        app.pool
            .execute("insert into effects (account, label) values ('plain', '')")
            .await;
        assert_eq!(app.effects().await, before + 1, "{statements:?}");
        app.script.statements([]);
        assert_eq!(app.post("/effects").key("other").await.status, 201);
        assert_eq!(app.effects().await, before + 2, "{statements:?}");
    }
}

const TWICE: [&str; 2] = [
    "insert into marks values (1)",
    "insert into marks values (1)",
];

async fn a_unique_violation_can_be_answered_and_kept(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.statements(TWICE);
    app.script
        .answer(|| (StatusCode::UNPROCESSABLE_ENTITY, "taken"));
    let taken = app.post("/effects").key("k").await;
    assert_eq!((taken.status, &taken.body[..]), (422, &b"taken"[..]));

    app.post("/effects").key("k").await.assert_replays(&taken);
    assert_eq!((app.effects().await, app.keys().await), (0, 1));
    assert_eq!(app.database.number("select count(*) from marks").await, 0);
}

async fn a_success_over_an_aborted_transaction_is_no_success(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.statements(TWICE);
    let answer = app.post("/effects").key("k").await;
    assert!(answer.status >= 500, "{answer:?}");
    let _ = answer.refusal();
    app.assert_untouched().await;
}

/// sqlx rolls everything back where a nested transaction fails to begin.
async fn a_nested_transaction_that_cannot_begin_is_not_the_handlers_end(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.statements(TWICE);
    app.script.answer(|| StatusCode::UNPROCESSABLE_ENTITY);
    let refused = app.post("/nested-late").key("k").await;
    refused.assert_refused(503, "transaction-aborted");
    app.script
        .answer(|| (StatusCode::BAD_GATEWAY, "of the handler"));
    let failed = app.post("/nested-late").key("k").await;
    assert_eq!(
        (failed.status, &failed.body[..]),
        (502, &b"of the handler"[..])
    );
    app.script.answer(|| StatusCode::CREATED);
    let success = app.post("/nested-late").key("k").await;
    success.assert_refused(500, "ended-by-handler");
    app.assert_untouched().await;

    app.script.statements([]);
    let retry = app.post("/nested-late").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    assert_eq!(app.effects().await, 1);
}

async fn nested_transactions_work(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/nested").key("k").await;
    assert_eq!(first.status, 201);
    app.post("/nested").key("k").await.assert_replays(&first);
    // One of the two nested transactions was rolled back.
    assert_eq!(app.effects().await, 1);

    // The nested commit stands or falls with the whole.
    app.script.answer(|| StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(app.post("/nested").key("other").await.status, 500);
    assert_eq!(app.effects().await, 1);
}
