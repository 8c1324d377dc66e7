//! SQLite rolls a transaction back by itself, and sqlx does not hear of it.

use axum::http::StatusCode;
use idem_tests::database::{Pool, TestDatabase};
use idem_tests::leased::{LeasedApp, LeasedSetup};
use idem_tests::{Kind, Setup, TestApp};
use sqlx::SqlitePool;

stamp!(
    sqlite: a_sweep_that_is_rolled_back_leaves_a_connection_that_claims,
    a_store_that_is_rolled_back_leaves_a_connection_that_claims,
    a_commit_that_is_rolled_back_leaves_a_connection_that_claims,
    a_nested_transaction_that_is_rolled_back_leaves_a_connection_that_claims,
    a_leased_claim_that_is_rolled_back_leaves_a_connection_that_claims,
    a_failure_after_an_automatic_rollback_is_the_handlers_own,
    a_refusal_after_an_automatic_rollback_may_be_retried,
    a_success_over_an_automatic_rollback_is_no_success,
);

async fn with_one_connection(kind: Kind) -> TestApp {
    let setup = Setup {
        pool_size: 1,
        ..Setup::default()
    };
    TestApp::with(kind, setup).await
}

/// A trigger that makes SQLite roll back whatever transaction does this, and not only the statement.
fn forbidding(what: &str) -> String {
    format!("create trigger forbid before {what} begin select raise(rollback, 'no'); end")
}

async fn forbid(app: &TestApp, what: &str) {
    app.database.execute(&forbidding(what)).await;
}

/// The one connection of the pool works: a request is done, once.
async fn assert_claims(app: &TestApp) {
    app.script.statements([]);
    app.script.answer(|| StatusCode::CREATED);
    let before = app.effects().await;
    let done = app.post("/effects").key("k").await;
    assert!(done.status == 201 && !done.is_replay(), "{done:?}");
    assert!(app.post("/effects").key("k").await.is_replay());
    assert_eq!(app.effects().await, before + 1);
}

async fn a_sweep_that_is_rolled_back_leaves_a_connection_that_claims(kind: Kind) {
    let app = with_one_connection(kind).await;
    assert_eq!(app.post("/effects").key("expired").await.status, 201);
    app.expire_keys().await;
    forbid(&app, "delete on idempotency_keys").await;
    assert!(app.handle.sweep().await.is_err());

    app.database.execute("drop trigger forbid").await;
    assert_claims(&app).await;
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 1);
}

async fn a_store_that_is_rolled_back_leaves_a_connection_that_claims(kind: Kind) {
    let app = with_one_connection(kind).await;
    forbid(&app, "insert on idempotency_keys").await;
    for _ in 0..2 {
        let answer = app.post("/effects").key("k").await;
        assert_eq!((answer.status, answer.refusal().retryable), (503, true));
    }
    app.database.execute("drop trigger forbid").await;
    app.assert_untouched().await;
    assert_claims(&app).await;
}

fn sqlite(pool: &Pool) -> &SqlitePool {
    match pool {
        Pool::Sqlite(pool) => pool,
        Pool::Postgres(_) => panic!("not SQLite"),
    }
}

/// As where the disk is full at the commit.
async fn let_commits_fail(app: &TestApp, fail: bool) {
    let mut conn = sqlite(&app.pool).acquire().await.expect("the connection");
    let mut handle = conn.lock_handle().await.expect("its handle");
    handle.remove_commit_hook();
    if fail {
        handle.set_commit_hook(|| false);
    }
}

async fn a_commit_that_is_rolled_back_leaves_a_connection_that_claims(kind: Kind) {
    let app = with_one_connection(kind).await;
    let_commits_fail(&app, true).await;
    for _ in 0..2 {
        let failed = app.post("/effects").key("k").await;
        failed.assert_refused(503, "transaction-aborted");
        let failed = app.post("/optional").await;
        failed.assert_refused(503, "transaction-aborted");
    }
    let_commits_fail(&app, false).await;
    app.assert_untouched().await;
    assert_claims(&app).await;
}

async fn a_nested_transaction_that_is_rolled_back_leaves_a_connection_that_claims(kind: Kind) {
    let app = with_one_connection(kind).await;
    forbid(&app, "insert on marks").await;
    app.script.statements(["insert into marks values (1)"]);
    let answer = app.post("/nested").key("k").await;
    assert!(answer.status >= 500, "{answer:?}");
    assert_claims(&app).await;
}

async fn a_leased_claim_that_is_rolled_back_leaves_a_connection_that_claims(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let setup = LeasedSetup {
        pool_size: 1,
        ..LeasedSetup::default()
    };
    let app = LeasedApp::with(&database, setup).await;
    database
        .pool()
        .execute(&forbidding("insert on idempotency_keys"))
        .await;
    for _ in 0..2 {
        let answer = app.order("k").await;
        assert_eq!((answer.status, answer.refusal().retryable), (503, true));
    }
    database.pool().execute("drop trigger forbid").await;
    assert_eq!(app.order("k").await.status, 201);
}

const NO_ROOM: &str = "insert into effects (account, label) values ('', hex(zeroblob(1000000)))";
const FORBIDDEN: &str = "insert into marks values (1)";
const TWICE: &str = "insert or rollback into parents values (1), (1)";

/// An application whose handler has one of these fail, which rolls its transaction back, and then
/// gives this answer.
async fn rolled_back_in_the_handler(
    kind: Kind,
    statement: &'static str,
    status: StatusCode,
) -> TestApp {
    let app = with_one_connection(kind).await;
    forbid(&app, "insert on marks").await;
    // Not less than what is there.
    app.pool.execute("pragma max_page_count = 1").await;
    app.script.statements([statement]);
    app.script.answer(move || (status, "of the handler"));
    app
}

async fn assert_claims_with_room(app: &TestApp) {
    app.assert_untouched().await;
    app.pool.execute("pragma max_page_count = 1000000").await;
    assert_claims(app).await;
}

async fn a_failure_after_an_automatic_rollback_is_the_handlers_own(kind: Kind) {
    for statement in [NO_ROOM, FORBIDDEN, TWICE] {
        let status = StatusCode::INSUFFICIENT_STORAGE;
        let app = rolled_back_in_the_handler(kind, statement, status).await;
        let failed = app.post("/effects").key("k").await;
        assert_eq!(
            (failed.status, &failed.body[..]),
            (507, &b"of the handler"[..])
        );
        assert_claims_with_room(&app).await;
    }
}

async fn a_refusal_after_an_automatic_rollback_may_be_retried(kind: Kind) {
    for statement in [NO_ROOM, FORBIDDEN, TWICE] {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let app = rolled_back_in_the_handler(kind, statement, status).await;
        let refused = app.post("/effects").key("k").await;
        refused.assert_refused(503, "transaction-aborted");
        assert_claims_with_room(&app).await;
    }
}

async fn a_success_over_an_automatic_rollback_is_no_success(kind: Kind) {
    for statement in [NO_ROOM, FORBIDDEN, TWICE] {
        let app = rolled_back_in_the_handler(kind, statement, StatusCode::CREATED).await;
        let answer = app.post("/effects").key("k").await;
        answer.assert_refused(500, "ended-by-handler");
        assert_claims_with_room(&app).await;
    }
}
