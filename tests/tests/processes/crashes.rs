//! Processes that are killed at the worst moments.

use idem_tests::database::{Kind, TestDatabase};
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
