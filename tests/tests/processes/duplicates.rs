//! Duplicates that reach different processes on one PostgreSQL.

use idem_tests::Answer;
use idem_tests::client::Pending;
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::process::{Door, ServerProcess};

use crate::serve;

/// Some processes on one database.
async fn processes<const N: usize>() -> (TestDatabase, Vec<ServerProcess>) {
    let database = TestDatabase::create(Kind::Postgres).await;
    let mut servers = Vec::with_capacity(N);
    for _ in 0..N {
        servers.push(serve(database.url()).await);
    }
    (database, servers)
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_retry_reaches_another_process_and_replays() {
    let (database, servers) = processes::<3>().await;
    let first = servers[0].post("/effects").key("k").json("{}").await;
    assert_eq!(first.status, 201);
    for server in &servers {
        server
            .post("/effects")
            .key("k")
            .json("{}")
            .await
            .assert_replays(&first);
    }
    assert_eq!(database.effects().await, 1);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn the_same_request_in_flight_elsewhere_is_told_to_come_back() {
    let (database, servers) = processes::<2>().await;
    servers[0].close(Door::Handler).await;
    let first = servers[0].post("/effects").key("k").start();
    servers[0].until_arrived(Door::Handler, 1).await;

    servers[1]
        .post("/effects")
        .key("k")
        .await
        .assert_refused(409, "in-progress");

    servers[0].open(Door::Handler).await;
    let first = first.answer().await;
    assert_eq!(first.status, 201);
    servers[1]
        .post("/effects")
        .key("k")
        .await
        .assert_replays(&first);
    assert_eq!(database.effects().await, 1);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn another_request_with_a_key_in_flight_elsewhere_is_refused_for_good() {
    let (database, servers) = processes::<2>().await;
    servers[0].close(Door::Handler).await;
    let first = servers[0].post("/effects").key("k").body("one").start();
    servers[0].until_arrived(Door::Handler, 1).await;

    for path in ["/effects", "/effects?page=2"] {
        let other = servers[1].post(path).key("k").body("two").await;
        other.assert_refused(422, "request-mismatch");
    }
    // It has not disturbed the first, and the same request still gets its 409.
    servers[1]
        .post("/effects")
        .key("k")
        .body("one")
        .await
        .assert_refused(409, "in-progress");

    servers[0].open(Door::Handler).await;
    assert_eq!(first.answer().await.status, 201);
    assert_eq!(database.effects().await, 1);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_patient_duplicate_elsewhere_gets_the_first_answer() {
    let (database, servers) = processes::<2>().await;
    servers[0].close(Door::Handler).await;
    let first = servers[0].post("/patient").key("k").start();
    servers[0].until_arrived(Door::Handler, 1).await;
    let duplicates: Vec<Pending> = (0..20)
        .map(|_| servers[1].post("/patient").key("k").start())
        .collect();

    // They wait without a connection: the process serves other keys meanwhile.
    for key in ["one", "two", "three"] {
        assert_eq!(servers[1].post("/patient").key(key).await.status, 201);
    }
    servers[0].open(Door::Handler).await;
    let first = first.answer().await;
    assert_eq!(first.status, 201);
    for duplicate in duplicates {
        duplicate.answer().await.assert_replays(&first);
    }
    assert_eq!(database.effects().await, 4);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn duplicates_over_all_processes_at_once_run_once() {
    let (database, servers) = processes::<3>().await;
    for round in 0..20 {
        let key = format!("k-{round}");
        let started: Vec<Pending> = (0..18)
            .map(|n| servers[n % 3].post("/effects").key(&key).start())
            .collect();
        let mut successes: Vec<Answer> = Vec::new();
        for pending in started {
            let answer = pending.answer().await;
            match answer.status {
                201 => successes.push(answer),
                _ => answer.assert_refused(409, "in-progress"),
            }
        }
        let first = successes
            .iter()
            .find(|answer| !answer.is_replay())
            .expect("one that ran");
        for answer in successes.iter().filter(|answer| answer.is_replay()) {
            answer.assert_replays(first);
        }
        assert_eq!(database.effects().await, round + 1);
    }
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn patient_duplicates_over_all_processes_all_get_the_one_answer() {
    let (database, servers) = processes::<3>().await;
    let started: Vec<Pending> = (0..30)
        .map(|n| servers[n % 3].post("/patient").key("k").start())
        .collect();
    let mut answers = Vec::new();
    for pending in started {
        answers.push(pending.answer().await);
    }
    let (replays, first): (Vec<_>, Vec<_>) = answers.into_iter().partition(Answer::is_replay);
    assert_eq!(first.len(), 1, "{first:?}");
    for replay in replays {
        replay.assert_replays(&first[0]);
    }
    assert_eq!(database.effects().await, 1);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_separator_in_a_tenant_or_a_key_joins_nothing_that_is_in_flight() {
    let (database, servers) = processes::<2>().await;
    servers[0].close(Door::Handler).await;
    let first = servers[0].post("/effects").account("a:b").key("c").start();
    servers[0].until_arrived(Door::Handler, 1).await;

    for (account, key) in [("a", "b:c"), ("a:b:c", "c"), ("b", "c"), ("a:b", ":c")] {
        let other = servers[1].post("/effects").account(account).key(key).await;
        assert_eq!(other.status, 201, "{account} {key}: {other:?}");
    }

    servers[0].open(Door::Handler).await;
    assert_eq!(first.answer().await.status, 201);
    assert_eq!(database.effects().await, 5);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn processes_may_start_at_the_same_time() {
    let database = TestDatabase::create(Kind::Postgres).await;
    let url = database.url();
    let servers = tokio::join!(serve(url), serve(url), serve(url), serve(url));
    let first = servers.0.post("/effects").key("k").await;
    servers
        .3
        .post("/effects")
        .key("k")
        .await
        .assert_replays(&first);
}
