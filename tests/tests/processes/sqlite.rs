//! SQLite with a writer in another process.

use std::time::Duration;

use idem_tests::database::{TestDatabase, connect};
use idem_tests::process::Door;
use idem_tests::{Kind, Setup, TestApp};

use crate::serve;

#[tokio::test]
async fn a_writer_in_another_process_is_an_answer_and_no_hang() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let (holder, other) = (serve(database.url()).await, serve(database.url()).await);
    holder.close(Door::Handler).await;
    let first = holder.post("/effects").key("k").start();
    holder.until_arrived(Door::Handler, 1).await;

    // The same key, another request, another key: nobody knows yet, and all may come back.
    for (key, body) in [("k", ""), ("k", "another"), ("other", "")] {
        let busy = other.post("/effects").key(key).body(body).await;
        busy.assert_refused(503, "transaction-aborted");
        assert!(busy.refusal().retryable);
    }

    holder.open(Door::Handler).await;
    let first = first.answer().await;
    assert_eq!(first.status, 201);
    other.post("/effects").key("k").await.assert_replays(&first);
    assert_eq!(other.post("/effects").key("other").await.status, 201);
    assert_eq!(database.effects().await, 2);
}

#[tokio::test]
async fn a_replay_does_not_wait_for_a_writer_in_another_process() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let (holder, other) = (serve(database.url()).await, serve(database.url()).await);
    let first = other.post("/effects").key("done").await;
    holder.close(Door::Handler).await;
    let running = holder.post("/effects").key("k").start();
    holder.until_arrived(Door::Handler, 1).await;

    other
        .post("/effects")
        .key("done")
        .await
        .assert_replays(&first);

    holder.open(Door::Handler).await;
    assert_eq!(running.answer().await.status, 201);
}

#[tokio::test]
async fn a_database_that_somebody_has_locked_is_an_answer_and_no_hang() {
    let database = TestDatabase::create(Kind::Sqlite).await;
    let server = serve(database.url()).await;
    let locker = connect(Kind::Sqlite, database.url(), 1, Duration::from_secs(5)).await;
    locker.execute("begin immediate").await;

    server
        .post("/effects")
        .key("k")
        .await
        .assert_refused(503, "transaction-aborted");

    locker.execute("rollback").await;
    assert_eq!(server.post("/effects").key("k").await.status, 201);
    assert_eq!(database.effects().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_does_not_wait_for_the_writers_that_queue() {
    let setup = Setup {
        pool_size: 2,
        ..Setup::default()
    };
    let app = TestApp::with(Kind::Sqlite, setup).await;
    let done = app.post("/effects").key("done").await;
    app.script.gate.close();
    let running = app.post("/effects").key("running").start();
    app.script.gate.until_arrived(2).await;
    let queued: Vec<_> = (0..10)
        .map(|n| app.post("/effects").key(&format!("queued-{n}")).start())
        .collect();
    app.doors.entered.until_arrived(12).await;

    // The queue holds none of the two connections.
    app.post("/effects").key("done").await.assert_replays(&done);

    app.script.gate.open();
    assert_eq!(running.answer().await.status, 201);
    for queued in queued {
        assert_eq!(queued.answer().await.status, 201);
    }
}
