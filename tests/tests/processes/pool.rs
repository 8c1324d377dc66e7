//! A pool of few connections: under a storm of duplicates, and after requests that were dropped.

use std::time::Duration;

use idem_tests::client::Pending;
use idem_tests::proxy::Fault;
use idem_tests::wire::{Wire, post};
use idem_tests::{Gate, Kind, Setup, TestApp};

/// Two hundred duplicates of a request whose handler does not end, and other keys meanwhile.
async fn assert_survives_a_storm(path: &str, patient: bool) {
    let acquire_timeout = Duration::from_secs(5);
    let setup = Setup {
        pool_size: 5,
        acquire_timeout,
        ..Setup::default()
    };
    let app = TestApp::with(Kind::Postgres, setup).await;
    app.script.gate.close();
    let first = app.post(path).key("k").start();
    app.script.gate.until_arrived(1).await;
    let storm: Vec<Pending> = (0..200).map(|_| app.post(path).key("k").start()).collect();
    app.doors.entered.until_arrived(201).await;

    // The first still stands in its handler, and yet other keys go on.
    app.script.gate.open_for_newcomers();
    for n in 0..50 {
        let other = app.post(path).key(&format!("other-{n}")).await;
        assert_eq!(other.status, 201, "{other:?}");
    }
    assert_eq!(app.keys().await, 50);

    app.script.gate.open();
    let first = first.answer().await;
    assert_eq!(first.status, 201);
    for duplicate in storm {
        let answer = duplicate.answer().await;
        if patient {
            answer.assert_replays(&first);
        } else {
            answer.assert_refused(409, "in-progress");
        }
    }
    app.post(path).key("k").await.assert_replays(&first);
    assert_eq!(app.effects().await, 51);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_storm_of_duplicates_delays_no_other_key() {
    assert_survives_a_storm("/effects", false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_storm_of_patient_duplicates_delays_no_other_key() {
    assert_survives_a_storm("/patient", true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_request_dropped_while_its_transaction_begins_leaves_a_clean_connection() {
    let setup = Setup {
        pool_size: 1,
        proxy: true,
        ..Setup::default()
    };
    let app = TestApp::with(Kind::Postgres, setup).await;
    let begin = Gate::default();
    begin.close();
    app.proxy
        .as_ref()
        .expect("a proxy")
        .fail("set transaction", Fault::Hold(begin.clone()));
    let request = post("/patient", &[("idempotency-key", b"k")], b"");
    let client = Wire::send(app.address, &request).await;
    begin.until_arrived(1).await;

    client.reset();
    app.doors.departed.until_arrived(1).await;
    begin.open();

    // The one connection of the pool: what is inserted on it is there for others.
    app.pool
        .execute("insert into effects (account, label) values ('plain', 'plain')")
        .await;
    let plain = "select count(*) from effects where account = 'plain'";
    assert_eq!(app.database.number(plain).await, 1);
    assert_eq!(idle_in_transaction(&app).await, 0);

    // And the request itself went on to its end.
    assert!(app.post("/patient").key("k").await.is_replay());
    assert_eq!(app.effects().await, 2);
}

async fn idle_in_transaction(app: &TestApp) -> i64 {
    let idle = "select count(*) from pg_stat_activity \
                where datname = current_database() and state like 'idle in transaction%'";
    app.database.number(idle).await
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_session_that_the_server_ends_in_the_handler_rolls_back() {
    let app = TestApp::start(Kind::Postgres).await;
    app.script.gate.close();
    let first = app.post("/effects").key("k").start();
    app.script.gate.until_arrived(1).await;
    app.database
        .execute(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where datname = current_database() and state like 'idle in transaction%'",
        )
        .await;
    app.script.gate.open();

    let lost = first.answer().await;
    assert_eq!(lost.status, 503, "{lost:?}");
    let _ = lost.refusal();
    app.assert_untouched().await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    assert_eq!(app.effects().await, 1);
}
