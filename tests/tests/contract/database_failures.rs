//! What happens when the database fails: before the handler, or at the commit.

use std::time::Duration;

use idem_tests::proxy::Fault;
use idem_tests::{Gate, Kind, Setup, TestApp};

stamp!(
    the_handler_does_not_run_when_the_store_is_down,
    the_handler_does_not_run_when_the_tables_are_missing,
    a_record_that_cannot_be_stored_takes_the_writes_with_it,
    a_commit_that_fails_is_no_success,
);

stamp!(
    postgres: the_handler_does_not_run_when_no_connection_is_free,
    the_handler_does_not_run_when_the_database_is_gone,
    a_constraint_that_fails_at_the_commit_is_an_answer,
    a_serialization_failure_at_the_commit_may_be_retried,
    a_connection_lost_before_the_commit_rolls_back,
    a_connection_lost_after_the_commit_is_found_out,
    a_commit_that_nobody_can_ask_about_is_no_success,
    a_claim_that_fails_as_it_begins_leaves_its_connection_usable,
    the_isolation_level_is_read_committed_whatever_the_default,
    the_time_limits_of_a_claim_end_with_it,
    a_schema_or_a_role_that_the_handler_leaves_set_rolls_back,
);

async fn the_handler_does_not_run_when_the_store_is_down(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.pool.close().await;
    let answer = app.post("/effects").key("k").await;
    answer.assert_refused(503, "store-unavailable");
    assert!(answer.refusal().retryable);
    assert_eq!(app.script.gate.arrived(), 0);
}

async fn the_handler_does_not_run_when_the_tables_are_missing(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            migrate: false,
            ..Setup::default()
        },
    )
    .await;
    let answer = app.post("/effects").key("k").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(app.script.gate.arrived(), 0);

    // Nothing needs to be started again after the migration.
    app.handle.migrate().await.expect("the tables are created");
    assert_eq!(app.post("/effects").key("k").await.status, 201);
}

async fn a_record_that_cannot_be_stored_takes_the_writes_with_it(kind: Kind) {
    let app = TestApp::start(kind).await;
    // Until the rollback there is no table to store the record in.
    app.script.statements(["drop table idempotency_keys"]);
    let answer = app.post("/effects").key("k").await;
    answer.assert_refused(503, "store-unavailable");
    app.assert_untouched().await;

    app.script.statements([]);
    let retry = app.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    assert_eq!(app.effects().await, 1);
}

async fn a_commit_that_fails_is_no_success(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .statements(["insert into children (parent) values (42)"]);
    let answer = app.post("/effects").key("k").await;
    answer.assert_refused(503, "transaction-aborted");
    app.assert_untouched().await;

    // The server says that a commit failed before it lets go of the locks.
    app.until_no_transaction_is_open().await;
    app.script.statements([]);
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    assert_eq!(app.effects().await, 1);
}

async fn a_constraint_that_fails_at_the_commit_is_an_answer(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.database
        .execute("create table codes (code integer unique deferrable initially deferred)")
        .await;
    app.script.statements(["insert into codes values (1), (1)"]);
    app.post("/effects")
        .key("k")
        .await
        .assert_refused(503, "transaction-aborted");
    app.assert_untouched().await;
}

async fn the_handler_does_not_run_when_no_connection_is_free(kind: Kind) {
    let acquire_timeout = Duration::from_secs(1);
    let setup = Setup {
        pool_size: 1,
        acquire_timeout,
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    app.script.gate.close();
    let first = app.post("/effects").key("one").start();
    app.script.gate.until_arrived(1).await;

    app.post("/effects")
        .key("two")
        .await
        .assert_refused(503, "store-unavailable");
    assert_eq!(app.script.gate.arrived(), 1);

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
    assert_eq!(app.post("/effects").key("two").await.status, 201);
}

/// In a file: a database in memory has one connection, for which a writer waits before its turn.
#[tokio::test]
async fn a_writer_that_waits_too_long_for_its_turn_may_be_retried() {
    let app = TestApp::start(Kind::Sqlite).await;
    app.script.gate.close();
    let first = app.post("/effects").key("one").start();
    app.script.gate.until_arrived(1).await;

    let late = app.post("/effects").key("two").await;
    late.assert_refused(503, "transaction-aborted");
    assert_eq!(app.script.gate.arrived(), 1);

    app.script.gate.open();
    assert_eq!(first.answer().await.status, 201);
    assert_eq!(app.post("/effects").key("two").await.status, 201);
}

fn behind_a_proxy() -> Setup {
    Setup {
        proxy: true,
        acquire_timeout: Duration::from_secs(5),
        ..Setup::default()
    }
}

async fn the_handler_does_not_run_when_the_database_is_gone(kind: Kind) {
    let app = TestApp::with(kind, behind_a_proxy()).await;
    app.proxy.as_ref().expect("a proxy").cut();
    app.post("/effects")
        .key("k")
        .await
        .assert_refused(503, "store-unavailable");
    assert_eq!(app.script.gate.arrived(), 0);
    app.assert_untouched().await;
}

async fn a_serialization_failure_at_the_commit_may_be_retried(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.database
        .execute(
            "create function fail() returns trigger language plpgsql as \
             $$ begin raise exception 'no' using errcode = 'serialization_failure'; end $$; \
             create constraint trigger fail after insert on marks \
             deferrable initially deferred for each row execute function fail()",
        )
        .await;
    app.script.statements(["insert into marks values (1)"]);
    let answer = app.post("/effects").key("k").await;
    answer.assert_refused(503, "transaction-aborted");
    assert!(answer.refusal().retryable);
    app.assert_untouched().await;
}

async fn a_connection_lost_before_the_commit_rolls_back(kind: Kind) {
    let app = TestApp::with(kind, behind_a_proxy()).await;
    app.proxy
        .as_ref()
        .expect("a proxy")
        .fail("commit", Fault::CutBefore);
    // It is looked up: nothing was done, so nothing about the outcome is unknown.
    let lost = app.post("/effects").key("k").await;
    lost.assert_refused(503, "transaction-aborted");
    app.assert_untouched().await;

    assert_eq!(app.post("/effects").key("k").await.status, 201);
    assert_eq!(app.effects().await, 1);
}

async fn a_connection_lost_after_the_commit_is_found_out(kind: Kind) {
    let app = TestApp::with(kind, behind_a_proxy()).await;
    app.proxy
        .as_ref()
        .expect("a proxy")
        .fail("commit", Fault::CutAfter);
    let first = app.post("/effects").key("k").await;
    assert_eq!(first.status, 201, "{first:?}");

    let retry = app.post("/effects").key("k").await;
    assert!(retry.status == 201 && retry.is_replay(), "{retry:?}");
    assert_eq!(retry.body, first.body);
    assert_eq!(app.effects().await, 1);
}

async fn a_commit_that_nobody_can_ask_about_is_no_success(kind: Kind) {
    let app = TestApp::with(kind, behind_a_proxy()).await;
    let proxy = app.proxy.as_ref().expect("a proxy");
    let reply = Gate::default();
    reply.close();
    proxy.fail("commit", Fault::Hold(reply.clone()));
    let first = app.post("/effects").key("k").start();
    reply.until_arrived(1).await;
    proxy.cut();

    first.answer().await.assert_refused(503, "outcome-unknown");
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
}

async fn a_claim_that_fails_as_it_begins_leaves_its_connection_usable(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            pool_size: 1,
            ..Setup::default()
        },
    )
    .await;
    // As it would where the server's memory for locks is full.
    let rename = |from, to| format!("alter function {from}(bigint) rename to {to}");
    let (lock, gone) = ("pg_try_advisory_xact_lock", "gone");
    app.database.execute(&rename(lock, gone)).await;
    let answer = app.post("/effects").key("k").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(app.script.gate.arrived(), 0);

    app.database.execute(&rename(gone, lock)).await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
}

async fn the_isolation_level_is_read_committed_whatever_the_default(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.database
        .execute(
            "do $$ begin execute format('alter database %I set default_transaction_isolation \
             = serializable', current_database()); end $$; \
             create table levels (level text)",
        )
        .await;
    app.script
        .statements(["insert into levels select current_setting('transaction_isolation')"]);
    // A connection keeps the default that it began with.
    app.end_sessions().await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    let level = app.database.text("select level from levels").await;
    assert_eq!(level, "read committed");
}

async fn the_time_limits_of_a_claim_end_with_it(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            pool_size: 1,
            ..Setup::default()
        },
    )
    .await;
    app.database
        .execute("create table limits (name text, value text)")
        .await;
    app.script
        .statements(["insert into limits select name, setting from pg_settings \
         where name in ('statement_timeout', 'idle_in_transaction_session_timeout')"]);
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    let limited = "select count(*) from limits where value::bigint between 1 and 120000";
    assert_eq!(app.database.number(limited).await, 2);

    let unlimited = "select count(*) from pg_settings where setting = '0' \
                     and name in ('statement_timeout', 'idle_in_transaction_session_timeout')";
    assert_eq!(app.pool.number(unlimited).await, 2);
}

/// As where each tenant has a schema or a role: the key is stored under what the handler has set.
async fn a_schema_or_a_role_that_the_handler_leaves_set_rolls_back(kind: Kind) {
    let app = TestApp::start(kind).await;
    for (key, set, set_back) in [
        (
            "schema",
            "set local search_path to pg_catalog",
            "reset search_path",
        ),
        ("role", "set local role pg_monitor", "reset role"),
    ] {
        let before = (app.effects().await, app.keys().await);
        app.script.statements([set]);
        let answer = app.post("/effects").key(key).await;
        answer.assert_refused(503, "store-unavailable");
        assert_eq!((app.effects().await, app.keys().await), before, "{key}");

        app.script.statements([set, set_back]);
        let first = app.post("/effects").key(key).await;
        assert_eq!(first.status, 201, "{first:?}");
        app.post("/effects").key(key).await.assert_replays(&first);
    }
}
