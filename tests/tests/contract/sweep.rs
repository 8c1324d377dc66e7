//! Retention: when a key is new again, and who removes it.

use std::time::Duration;

use idem_runtime::Overrides;
use idem_tests::{Kind, Setting, Setup, TestApp};

stamp!(
    a_key_past_its_ttl_runs_anew_though_nothing_swept_it,
    an_expired_key_may_be_used_for_another_request,
    the_ttl_counts_from_completion_by_the_clock_of_the_database,
    the_ttl_of_a_scope_can_be_overridden,
    a_sweep_removes_expired_keys_and_no_others,
    a_sweep_of_many_keys_removes_them_all,
    a_sweeper_removes_all_of_many_keys_at_once,
    a_sweep_leaves_a_key_in_flight_alone,
    a_sweeper_sweeps_until_it_is_stopped,
);

stamp!(
    postgres: a_sweep_does_not_wait_for_a_row_that_is_locked,
    the_clock_of_the_database_decides,
);

async fn a_key_past_its_ttl_runs_anew_though_nothing_swept_it(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects").key("k").await;
    app.expire_keys().await;

    let again = app.post("/effects").key("k").await;
    assert!(again.status == 201 && !again.is_replay(), "{again:?}");
    assert_ne!(again.body, first.body);
    app.post("/effects").key("k").await.assert_replays(&again);
    assert_eq!((app.effects().await, app.keys().await), (2, 1));
}

async fn an_expired_key_may_be_used_for_another_request(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.post("/effects").key("k").body("one").await;
    app.expire_keys().await;
    let other = app.post("/effects").key("k").body("two").await;
    assert_eq!(other.status, 201);
    app.post("/effects")
        .key("k")
        .body("two")
        .await
        .assert_replays(&other);
    app.post("/effects")
        .key("k")
        .body("one")
        .await
        .assert_refused(422, "request-mismatch");
}

/// Seconds between completion and expiry of the one key.
async fn ttl_seconds(app: &TestApp) -> i64 {
    let ttl = if app.kind.is_sqlite() {
        "(expires_at - completed_at) / 1000"
    } else {
        "extract(epoch from expires_at - completed_at)::bigint"
    };
    app.database
        .number(&format!("select {ttl} from idempotency_keys"))
        .await
}

async fn the_ttl_counts_from_completion_by_the_clock_of_the_database(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_eq!(
        app.post("/webhook").header("webhook-id", "k").await.status,
        201
    );
    assert_eq!(ttl_seconds(&app).await, 14 * 24 * 60 * 60);
    let order = "select count(*) from idempotency_keys where created_at <= completed_at";
    assert_eq!(app.database.number(order).await, 1);
}

async fn the_ttl_of_a_scope_can_be_overridden(kind: Kind) {
    let settings = vec![Setting::Scope(
        "effects",
        Overrides::new().ttl(Duration::from_secs(7)),
    )];
    let app = TestApp::with(
        kind,
        Setup {
            settings,
            ..Setup::default()
        },
    )
    .await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    assert_eq!(ttl_seconds(&app).await, 7);
}

async fn a_sweep_removes_expired_keys_and_no_others(kind: Kind) {
    let app = TestApp::start(kind).await;
    for key in ["one", "two"] {
        assert_eq!(app.post("/effects").key(key).await.status, 201);
    }
    app.expire_keys().await;
    let fresh = app.post("/effects").key("three").await;

    assert_eq!(app.handle.sweep().await.expect("a sweep"), 2);
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 0);
    app.post("/effects")
        .key("three")
        .await
        .assert_replays(&fresh);
    assert_eq!(app.keys().await, 1);
}

/// An application with more expired keys than two batches remove.
async fn with_many_expired_keys(kind: Kind) -> TestApp {
    let app = TestApp::start(kind).await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    app.database
        .execute(
            "insert into idempotency_keys \
             select tenant, scope, 'copy-' || n, fingerprint, state, attempt, locked_until, \
             status, headers, body, created_at, completed_at, expires_at \
             from idempotency_keys cross join \
             (with recursive numbers (n) as \
             (select 1 union all select n + 1 from numbers where n < 3000) \
             select n from numbers) as numbers",
        )
        .await;
    app.expire_keys().await;
    app
}

async fn a_sweep_of_many_keys_removes_them_all(kind: Kind) {
    let app = with_many_expired_keys(kind).await;
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 3001);
    assert_eq!(app.keys().await, 0);
}

async fn a_sweeper_removes_all_of_many_keys_at_once(kind: Kind) {
    let app = with_many_expired_keys(kind).await;
    let sweeper = app.handle.spawn_sweeper(Duration::from_hours(1));
    let swept = async {
        while app.keys().await > 0 {
            tokio::task::yield_now().await;
        }
    };
    let swept = tokio::time::timeout(Duration::from_mins(1), swept).await;
    assert!(swept.is_ok(), "{} keys are left", app.keys().await);
    sweeper.stop().await;
}

async fn a_sweep_leaves_a_key_in_flight_alone(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    app.expire_keys().await;
    app.script.gate.close();
    let again = app.post("/effects").key("k").start();
    app.script.gate.until_arrived(2).await;

    // On SQLite it waits for the writer, and gives up or gets its turn.
    let sweep = tokio::spawn({
        let handle = app.handle.clone();
        async move { handle.sweep().await }
    });
    if kind.is_sqlite() {
        app.script.gate.open();
        let _ = sweep.await.expect("no panic");
    } else {
        sweep.await.expect("no panic").expect("a sweep");
        app.script.gate.open();
    }

    let again = again.answer().await;
    assert!(again.status == 201 && !again.is_replay(), "{again:?}");
    app.post("/effects").key("k").await.assert_replays(&again);
    assert_eq!((app.effects().await, app.keys().await), (2, 1));
}

async fn a_sweep_does_not_wait_for_a_row_that_is_locked(kind: Kind) {
    let app = TestApp::start(kind).await;
    for key in ["locked", "free"] {
        assert_eq!(app.post("/effects").key(key).await.status, 201);
    }
    app.expire_keys().await;
    // Another session holds the row, as a claim does at its very end.
    app.script
        .statements(["select 1 from idempotency_keys where key = 'locked' for update"]);
    app.script.gate.close();
    let holder = app.post("/effects").key("holder").start();
    app.script.gate.until_arrived(3).await;

    assert_eq!(app.handle.sweep().await.expect("a sweep"), 1);

    app.script.gate.open();
    assert_eq!(holder.answer().await.status, 201);
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 1);
}

async fn a_sweeper_sweeps_until_it_is_stopped(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    app.expire_keys().await;
    let sweeper = app.handle.spawn_sweeper(Duration::from_millis(5));
    while app.keys().await > 0 {
        tokio::task::yield_now().await;
    }
    sweeper.stop().await;

    assert_eq!(app.post("/effects").key("k").await.status, 201);
    app.expire_keys().await;
    // It is gone: nobody but this sweep removes the key.
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 1);
}

/// Gives the database a clock of its own, which the application's knows nothing of.
async fn set_database_clock(app: &TestApp, offset: &str) {
    let functions = [
        "now",
        "clock_timestamp",
        "statement_timestamp",
        "transaction_timestamp",
    ];
    app.database
        .execute("create schema if not exists wrong")
        .await;
    for name in functions {
        let function = format!(
            "create or replace function wrong.{name}() returns timestamptz language sql as \
             $$ select pg_catalog.{name}() + interval '{offset}' $$"
        );
        app.database.execute(&function).await;
    }
    app.database
        .execute(
            "do $$ begin execute format('alter database %I set search_path = \
             wrong, public, pg_catalog', current_database()); end $$",
        )
        .await;
    app.end_sessions().await;
}

async fn the_clock_of_the_database_decides(kind: Kind) {
    let app = TestApp::start(kind).await;
    set_database_clock(&app, "-3 days").await;
    let first = app.post("/effects").key("k").await;
    assert_eq!(first.status, 201);
    // By the application's clock it expired two days ago.
    app.post("/effects").key("k").await.assert_replays(&first);
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 0);

    set_database_clock(&app, "-1 day").await;
    let again = app.post("/effects").key("k").await;
    assert!(again.status == 201 && !again.is_replay(), "{again:?}");

    set_database_clock(&app, "1 hour").await;
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 1);
}
