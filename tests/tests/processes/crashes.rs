//! Processes that are killed at the worst moments.

use idem_tests::database::{Kind, Pool, TestDatabase};
use idem_tests::process::{Door, ServerProcess};

use crate::serve;

/// Two processes on one database, the second of which survives.
async fn two(kind: Kind) -> (TestDatabase, ServerProcess, ServerProcess) {
    let database = TestDatabase::create(kind).await;
    let (doomed, survivor) = (serve(database.url()).await, serve(database.url()).await);
    (database, doomed, survivor)
}

/// The one retry after the owner's death runs, at once: no lease, no clock, no clean-up.
async fn assert_free_after_death(kind: Kind) {
    let (database, doomed, survivor) = two(kind).await;
    doomed.close(Door::Handler).await;
    let lost = doomed.post("/effects").key("k").start();
    doomed.until_arrived(Door::Handler, 1).await;

    doomed.kill().await;
    assert!(lost.answer_if_any().await.is_none());
    database.until_no_transaction_is_open().await;

    let retry = survivor.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    survivor
        .post("/effects")
        .key("k")
        .await
        .assert_replays(&retry);
    assert_eq!((database.effects().await, database.keys().await), (1, 1));
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_key_is_free_at_once_after_its_owner_died_on_postgres() {
    assert_free_after_death(Kind::Postgres).await;
}

#[tokio::test]
async fn a_key_is_free_at_once_after_its_owner_died_on_sqlite() {
    assert_free_after_death(Kind::Sqlite).await;
}

/// PostgreSQL looks for its client between statements: the one in the middle ends first.
#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_key_is_free_when_the_statement_of_its_dead_owner_has_ended() {
    let (database, doomed, survivor) = two(Kind::Postgres).await;
    let Pool::Postgres(pool) = database.pool() else {
        panic!("not PostgreSQL");
    };
    let mut other = pool.begin().await.expect("a transaction");
    let lock = "lock table effects in share row exclusive mode";
    sqlx::raw_sql(lock).execute(&mut *other).await.expect(lock);
    let lost = doomed.post("/effects").key("k").start();
    let waiting = "select count(*) from pg_stat_activity \
                   where datname = current_database() and wait_event_type = 'Lock'";
    while database.pool().number(waiting).await == 0 {
        tokio::task::yield_now().await;
    }

    doomed.kill().await;
    assert!(lost.answer_if_any().await.is_none());
    let early = survivor.post("/effects").key("k").await;
    early.assert_refused(409, "in-progress");

    other.rollback().await.expect("a rollback");
    database.until_no_transaction_is_open().await;
    let retry = survivor.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    assert_eq!((database.effects().await, database.keys().await), (1, 1));
}

/// After the commit, effect and record are both there, whatever becomes of the answer.
async fn assert_replays_after_death(kind: Kind) {
    let (database, doomed, survivor) = two(kind).await;
    doomed.close(Door::Answer).await;
    let lost = doomed.post("/effects").key("k").start();
    doomed.until_arrived(Door::Answer, 1).await;

    doomed.kill().await;
    assert!(lost.answer_if_any().await.is_none());

    let retry = survivor.post("/effects").key("k").await;
    assert!(retry.status == 201 && retry.is_replay(), "{retry:?}");
    assert_eq!((database.effects().await, database.keys().await), (1, 1));
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn an_answer_survives_the_death_after_its_commit_on_postgres() {
    assert_replays_after_death(Kind::Postgres).await;
}

#[tokio::test]
async fn an_answer_survives_the_death_after_its_commit_on_sqlite() {
    assert_replays_after_death(Kind::Sqlite).await;
}
