//! What an operator sets up, and what is in the tables.

use std::error::Error;
use std::time::Duration;

use axum::http::StatusCode;
use idem_runtime::{ConfigError, Idempotency, Overrides, StoreErrorKind};
use idem_tests::app::Handle;
use idem_tests::app::{UNREADABLE, UNSEALABLE};
use idem_tests::database::Pool;
use idem_tests::{Kind, Setting, Setup, TestApp};
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres, SqlitePool};

stamp!(
    migrating_twice_changes_nothing,
    handles_may_migrate_at_once,
    the_printed_migration_is_the_migration,
    a_table_of_another_shape_is_found_at_the_migration,
    a_table_without_its_unique_constraint_is_found_at_the_migration,
    a_table_name_that_is_a_keyword_is_found_at_the_migration,
    the_table_can_have_another_name,
    an_override_of_the_time_out_holds,
    an_override_of_the_largest_response_holds,
    keys_can_be_stored_as_digests,
    responses_can_be_sealed,
    a_seal_that_panics_is_no_answer_and_keeps_no_key,
    a_response_that_does_not_open_is_no_answer,
);

stamp!(
    postgres: a_process_that_starts_waits_for_none_that_works,
    who_may_not_create_tables_migrates_where_they_are,
    defaults_of_the_database_do_not_keep_it_from_migrating_and_sweeping,
    a_migration_waits_for_another_whatever_the_limits_of_the_database,
    an_index_waits_no_longer_than_the_database_allows,
);

stamp!(
    sqlite: a_first_migration_waits_for_a_writer,
    a_migration_turns_on_the_write_ahead_log,
);

async fn a_process_that_starts_waits_for_none_that_works(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let working = app.post("/told").key("k").start();
    app.script.gate.until_arrived(1).await;
    let starting = app.beside();
    let started = tokio::time::timeout(Duration::from_mins(1), starting).await;
    assert!(started.is_ok(), "it waits for a handler");
    app.script.gate.open();
    assert_eq!(working.answer().await.status, 201);
}

async fn migrating_twice_changes_nothing(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects").key("k").await;
    app.handle.migrate().await.expect("a second migration");
    app.post("/effects").key("k").await.assert_replays(&first);
}

async fn a_migration_turns_on_the_write_ahead_log(kind: Kind) {
    let app = TestApp::start(kind).await;
    // A connection that has read nothing since does not know it yet.
    let mode = "select journal_mode from (select count(*) from effects) join pragma_journal_mode";
    let mode = app.database.text(mode).await;
    let in_memory = kind == Kind::SqliteInMemory;
    assert_eq!(mode, if in_memory { "memory" } else { "wal" });
}

async fn handles_may_migrate_at_once(kind: Kind) {
    let setup = Setup {
        migrate: false,
        pool_size: 8,
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    assert_migrates_at_once(&app).await;
}

/// Eight handles migrate at once, ten times.
async fn assert_migrates_at_once(app: &TestApp) {
    for _ in 0..10 {
        let migrations: Vec<_> = (0..8)
            .map(|_| Handle::new(&app.pool, &[]))
            .map(|handle| tokio::spawn(async move { handle.migrate().await }))
            .collect();
        for migration in migrations {
            migration.await.expect("no panic").expect("a migration");
        }
        let drop = if app.kind.is_sqlite() {
            "drop table idempotency_keys"
        } else {
            "start transaction read write; drop table idempotency_keys; commit"
        };
        app.database.execute(drop).await;
    }
}

async fn defaults_of_the_database_do_not_keep_it_from_migrating_and_sweeping(kind: Kind) {
    for default in ["isolation = ''repeatable read''", "read_only = on"] {
        let setup = Setup {
            migrate: false,
            pool_size: 8,
            ..Setup::default()
        };
        let app = TestApp::with(kind, setup).await;
        app.database
            .execute(&format!(
                "do $$ begin execute format('alter database %I set default_transaction_{default}', \
                 current_database()); end $$",
            ))
            .await;
        // A connection keeps the default that it began with.
        app.end_sessions().await;
        assert_migrates_at_once(&app).await;

        app.handle.migrate().await.expect("a migration");
        assert_eq!(app.post("/effects").key("k").await.status, 201);
        assert_eq!(app.handle.sweep().await.expect("a sweep"), 0);
    }
}

async fn a_migration_waits_for_another_whatever_the_limits_of_the_database(kind: Kind) {
    for limit in ["lock_timeout", "statement_timeout"] {
        let app = with_limit(kind, limit, Duration::from_millis(100)).await;
        let mut migrating = hold(&app, "select pg_advisory_xact_lock(1768187245)").await;
        let handle = app.handle.clone();
        let waiting = tokio::spawn(async move { handle.migrate().await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        sqlx::query("commit")
            .execute(&mut *migrating)
            .await
            .expect("a commit");
        waiting.await.expect("no panic").expect("a migration");
    }
}

/// Whoever waits to create an index holds up all that write.
async fn an_index_waits_no_longer_than_the_database_allows(kind: Kind) {
    let app = with_limit(kind, "lock_timeout", Duration::from_millis(100)).await;
    app.handle.migrate().await.expect("a first migration");
    app.database
        .execute("drop index idempotency_keys_expires_at")
        .await;
    let _writing = hold(&app, "lock table idempotency_keys in row exclusive mode").await;
    let migration = tokio::time::timeout(Duration::from_secs(30), app.handle.migrate()).await;
    let error = migration.expect("it waits").expect_err("an index");
    assert_eq!(error.kind(), StoreErrorKind::Aborted);
}

/// Not yet migrated, in a database that sets a limit for every session.
async fn with_limit(kind: Kind, limit: &str, value: Duration) -> TestApp {
    let setup = Setup {
        migrate: false,
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    app.database
        .execute(&format!(
            "do $$ begin execute format('alter database %I set {limit} = {}', \
             current_database()); end $$",
            value.as_millis(),
        ))
        .await;
    // A connection keeps the limits that it began with.
    app.end_sessions().await;
    app
}

/// A connection with an open transaction that has run this.
async fn hold(app: &TestApp, statement: &'static str) -> PoolConnection<Postgres> {
    let Pool::Postgres(pool) = &app.database else {
        panic!("not PostgreSQL");
    };
    let mut connection = pool.acquire().await.expect("a connection");
    for statement in ["begin", statement] {
        sqlx::query(statement)
            .execute(&mut *connection)
            .await
            .expect("a statement");
    }
    connection
}

/// As two processes do that migrate a new file at once.
async fn a_first_migration_waits_for_a_writer(kind: Kind) {
    let setup = Setup {
        migrate: false,
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    let Pool::Sqlite(pool) = &app.database else {
        panic!("not SQLite");
    };
    let writing = pool.begin_with("begin immediate").await;
    let writing = writing.expect("a transaction");
    let handle = app.handle.clone();
    let migration = tokio::spawn(async move { handle.migrate().await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    writing.rollback().await.expect("a rollback");
    migration.await.expect("no panic").expect("a migration");
}

async fn the_printed_migration_is_the_migration(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            migrate: false,
            ..Setup::default()
        },
    )
    .await;
    app.database.execute(&app.handle.migration_sql()).await;
    let first = app.post("/effects").key("k").await;
    assert_eq!(first.status, 201);
    app.post("/effects").key("k").await.assert_replays(&first);
}

async fn a_table_of_another_shape_is_found_at_the_migration(kind: Kind) {
    for table in ["idempotency_keys", "idempotency_steps", "outbox"] {
        let setup = Setup {
            migrate: false,
            ..Setup::default()
        };
        let app = TestApp::with(kind, setup).await;
        app.database
            .execute(&format!(
                "create table {table} (key text, expires_at integer)"
            ))
            .await;
        let error = app.handle.migrate().await.expect_err("a wrong table");
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
}

/// The last fence: without it two rows could hold a key, and nothing would tell.
async fn a_table_without_its_unique_constraint_is_found_at_the_migration(kind: Kind) {
    for table in ["idempotency_keys", "idempotency_steps"] {
        let app = TestApp::start(kind).await;
        app.database
            .execute(&format!(
                "create table copy as select * from {table}; drop table {table}; \
                 alter table copy rename to {table}"
            ))
            .await;
        let error = app.handle.migrate().await.expect_err(table);
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
}

/// `pg_monitor` is a role of every server, without rights of its own here.
async fn who_may_not_create_tables_migrates_where_they_are(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.database
        .execute(
            "revoke create on schema public from public; \
             grant select, insert, update, delete \
             on idempotency_keys, idempotency_steps, outbox to pg_monitor",
        )
        .await;
    let Pool::Postgres(owner) = &app.database else {
        panic!("not PostgreSQL");
    };
    let options = owner.connect_options().as_ref().clone();
    let pool = PgPool::connect_lazy_with(options.options([("role", "pg_monitor")]));
    let handle = Handle::new(&Pool::Postgres(pool), &[]);
    handle.migrate().await.expect("tables that are there");
    assert_eq!(handle.sweep().await.expect("a sweep"), 0);

    app.database.execute("drop table idempotency_steps").await;
    let error = handle.migrate().await.expect_err("a table that is missing");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    let cause = error.source().expect("what the server said").to_string();
    assert!(cause.contains("permission denied for schema"), "{cause}");
}

async fn a_table_name_that_is_a_keyword_is_found_at_the_migration(kind: Kind) {
    let setup = Setup {
        migrate: false,
        settings: vec![Setting::KeysTable("order")],
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    let error = app.handle.migrate().await.expect_err("no name of a table");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
}

async fn the_table_can_have_another_name(kind: Kind) {
    let setup = Setup {
        settings: vec![Setting::KeysTable("Other_keys")],
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    let first = app.post("/effects").key("k").await;
    assert_eq!(first.status, 201);
    app.post("/effects").key("k").await.assert_replays(&first);
    assert_eq!(app.keys().await, 1);
    app.expire_keys().await;
    assert_eq!(app.handle.sweep().await.expect("a sweep"), 1);
}

async fn an_override_of_the_time_out_holds(kind: Kind) {
    let settings = vec![Setting::Scope(
        "effects",
        Overrides::new().timeout(Duration::from_millis(100)),
    )];
    let app = TestApp::with(
        kind,
        Setup {
            settings,
            ..Setup::default()
        },
    )
    .await;
    app.script.gate.close();
    app.post("/effects")
        .key("k")
        .await
        .assert_refused(503, "timed-out");
    app.script.gate.open();
}

async fn an_override_of_the_largest_response_holds(kind: Kind) {
    let settings = vec![Setting::Scope("effects", Overrides::new().max_response(3))];
    let app = TestApp::with(
        kind,
        Setup {
            settings,
            ..Setup::default()
        },
    )
    .await;
    app.script.answer(|| "four");
    assert_eq!(app.post("/effects").key("k").await.body, "four");
    app.post("/effects")
        .key("k")
        .await
        .assert_refused(409, "response-not-kept");
}

async fn keys_can_be_stored_as_digests(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            settings: vec![Setting::DigestKeys],
            ..Setup::default()
        },
    )
    .await;
    let first = app.post("/effects").key("a-key-to-hide").await;
    app.post("/effects")
        .key("a-key-to-hide")
        .await
        .assert_replays(&first);
    app.post("/effects")
        .key("a-key-to-hide")
        .account("bob")
        .await;

    let stored = app
        .database
        .text("select min(key) from idempotency_keys")
        .await;
    assert!(
        stored.len() == 64 && stored.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{stored}"
    );
    let distinct = "select count(distinct key) from idempotency_keys";
    assert_eq!(app.database.number(distinct).await, 2);
}

async fn responses_can_be_sealed(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            settings: vec![Setting::Seal],
            ..Setup::default()
        },
    )
    .await;
    app.script
        .answer(|| ([("x-secret", "header-secret")], "body-secret"));
    let first = app.post("/effects").key("k").await;
    app.post("/effects").key("k").await.assert_replays(&first);

    for (column, secret) in [("headers", "header-secret"), ("body", "body-secret")] {
        let reversed: String = secret.chars().rev().collect();
        for (text, count) in [(secret, 0), (reversed.as_str(), 1)] {
            let found = if kind.is_sqlite() {
                format!("instr({column}, cast('{text}' as blob)) > 0")
            } else {
                format!("position('{text}'::bytea in {column}) > 0")
            };
            let found = format!("select count(*) from idempotency_keys where {found}");
            assert_eq!(
                app.database.number(&found).await,
                count,
                "{text} in {column}"
            );
        }
    }
}

async fn a_response_that_does_not_open_is_no_answer(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            settings: vec![Setting::Seal],
            ..Setup::default()
        },
    )
    .await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    // Moved to another key, it has another context.
    app.database
        .execute("update idempotency_keys set key = 'moved'")
        .await;
    let moved = app.post("/effects").key("moved").await;
    assert!(moved.status >= 500, "{moved:?}");
    assert_eq!(app.effects().await, 1);

    // So has one that was moved to another column, though it would be as good there: both are empty.
    app.script.answer(|| StatusCode::CREATED);
    assert_eq!(app.post("/effects").key("mixed").await.status, 201);
    app.database
        .execute("update idempotency_keys set headers = body, body = headers where key = 'mixed'")
        .await;
    let mixed = app.post("/effects").key("mixed").await;
    mixed.assert_refused(503, "store-unavailable");
}

async fn a_seal_that_panics_is_no_answer_and_keeps_no_key(kind: Kind) {
    let setup = Setup {
        settings: vec![Setting::Seal],
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    app.script.answer(|| UNSEALABLE);
    for _ in 0..2 {
        let lost = app.post("/effects").key("k").await;
        lost.assert_refused(503, "store-unavailable");
    }
    app.assert_untouched().await;
    app.script.answer(|| UNREADABLE);
    let first = app.post("/effects").key("k").await;
    assert!(first.status == 200 && !first.is_replay(), "{first:?}");
    for _ in 0..2 {
        let lost = app.post("/effects").key("k").await;
        lost.assert_refused(503, "store-unavailable");
    }
    assert_eq!(app.effects().await, 1);
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_at_the_start() {
    let pool = SqlitePool::connect_lazy("sqlite::memory:").expect("a pool");
    let build = || Idempotency::builder(pool.clone());
    for name in [
        "",
        "keys; drop table keys",
        "1keys",
        "schl\u{fc}ssel",
        &"k".repeat(49),
    ] {
        for named in [
            build().keys_table(name),
            build().steps_table(name),
            build().outbox_table(name),
        ] {
            let error = named.build().expect_err(name);
            assert!(matches!(error, ConfigError::TableName(_)), "{error}");
        }
    }
    for twice in [
        build().keys_table("jobs").steps_table("JOBS"),
        build().keys_table("outbox"),
        build().outbox_table("idempotency_steps"),
    ] {
        let error = twice.build().expect_err("one name for two tables");
        assert!(matches!(error, ConfigError::TableNameTwice(_)), "{error}");
    }
    assert!(build().keys_table(&"k".repeat(48)).build().is_ok());
    let none = Overrides::new();
    for (scope, overrides) in [
        ("Payments", none),
        ("", none),
        ("payments", none.ttl(Duration::from_millis(999))),
        ("payments", none.ttl(Duration::from_hours(401 * 24))),
        ("payments", none.timeout(Duration::ZERO)),
        ("payments", none.lease(Duration::from_millis(99))),
        ("payments", none.lease(Duration::from_hours(401 * 24))),
    ] {
        assert!(
            build().scope(scope, overrides).build().is_err(),
            "{scope} {overrides:?}"
        );
    }
    assert!(
        build()
            .scope("payments", none.wait(Duration::ZERO))
            .build()
            .is_ok()
    );
}

#[tokio::test]
async fn a_database_that_is_down_is_found_at_the_migration() {
    let pool = sqlx::postgres::PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(200))
        .connect_lazy("postgres://nobody@127.0.0.1:1/none")
        .expect("a pool");
    let error = Idempotency::new(pool)
        .migrate()
        .await
        .expect_err("no database");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}
