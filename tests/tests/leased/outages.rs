//! A provider or a database that is not there: 503, nothing lost, and a retry that ends well.

use std::time::Duration;

use idem_tests::Kind;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{LeasedApp, LeasedSetup, Order, POINTS, Provider, Psp};
use idem_tests::process::Door;
use serde_json::{Value, json};

use crate::processes::{LEASE, assert_charges, assert_once, order, retry, serve, stop_at};

/// The provider charges and drops the connection: only the same derived key finds the charge.
async fn a_provider_that_charges_and_drops_the_connection_charges_once(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let psp = Psp::start().await;
    let server = serve(&database, &psp, &[]).await;
    let body = json!({ "card": "card_drop" }).to_string();
    let send = || {
        server
            .post("/orders")
            .key("k")
            .account("drop")
            .json(body.clone())
    };

    let failed = send().await;
    assert_eq!(failed.status, 503, "{failed:?}");
    assert_charges(&psp, 1).await;
    let answer = send().await;
    assert_eq!(answer.status, 201, "{answer:?}");
    send().await.assert_replays(&answer);
    assert_once(&database, &psp, &answer, "drop").await;
}

async fn a_provider_that_is_down_costs_nothing_but_time(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let mut psp = Psp::start().await;
    let server = serve(&database, &psp, &[]).await;
    psp.kill().await;
    for _ in 0..3 {
        let failed = order(&server, "down").await;
        assert_eq!(failed.status, 503, "{failed:?}");
    }
    psp.start_again().await;
    let answer = retry(&server, "down").await;
    assert_eq!(answer.json::<Value>()["attempt"], 4);
    assert_once(&database, &psp, &answer, "down").await;
}

/// The provider dies between its charge and its answer, which is the next thing that it would do.
async fn a_provider_that_dies_after_its_charge_charges_once(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let mut psp = Psp::start().await;
    let server = serve(&database, &psp, &[]).await;
    let body = json!({ "card": "card_slow" }).to_string();
    let send = || {
        server
            .post("/orders")
            .key("k")
            .account("slow")
            .json(body.clone())
    };

    let waiting = send().start();
    while psp.charges().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    psp.kill().await;
    assert_eq!(waiting.answer().await.status, 503);
    psp.start_again().await;
    let answer = send().await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_charges(&psp, 1).await;
    assert_once(&database, &psp, &answer, "slow").await;
}

/// A provider that says 503 before it charges is asked again by each retry.
async fn a_card_that_is_down_is_not_charged(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let psp = Psp::start().await;
    let server = serve(&database, &psp, &[]).await;
    let body = json!({ "card": "card_down" }).to_string();
    for _ in 0..2 {
        let failed = server.post("/orders").key("k").json(body.clone()).await;
        assert!(failed.status == 503 && !failed.is_replay(), "{failed:?}");
    }
    assert_charges(&psp, 0).await;
    let reserved = "select count(*) from effects where label = 'reserve'";
    assert_eq!(database.pool().number(reserved).await, 1);
}

/// The line to the database breaks at each point, the run goes on without it, and it comes back.
async fn an_order_survives_the_loss_of_its_database_at_every_point(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let psp = Psp::start().await;
    let breaker = database.breaker().await;
    let pool = database
        .connect_to(breaker.port(), 5, Duration::from_secs(10))
        .await;
    let setup = LeasedSetup {
        lease: LEASE,
        ..LeasedSetup::default()
    };
    let order = Order {
        provider: Provider::at(psp.url()),
        ..Order::default()
    };
    let app = LeasedApp::on(&pool, setup, order).await;

    for point in POINTS {
        let gate = app.order.gates.at(point);
        let others = gate.arrived();
        gate.close();
        let running = app.order(point).account(point).start();
        gate.until_arrived(others + 1).await;
        breaker.cut();
        gate.open();
        let failed = running.answer().await;
        assert_eq!(failed.status, 503, "{point}: {failed:?}");
        let meanwhile = app.order(point).account(point).await;
        meanwhile.assert_refused(503, "store-unavailable");

        breaker.mend();
        let mut answer = app.order(point).account(point).await;
        while answer.status != 201 {
            assert!(matches!(answer.status, 409 | 503), "{point}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            answer = app.order(point).account(point).await;
        }
        assert_once(&database, &psp, &answer, point).await;
    }
    assert_charges(&psp, POINTS.len()).await;
}

/// The line breaks and comes back while the run does something else: it never notices.
async fn a_run_outlives_a_short_loss_of_its_database(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let breaker = database.breaker().await;
    let pool = database
        .connect_to(breaker.port(), 5, Duration::from_secs(10))
        .await;
    let setup = LeasedSetup {
        lease: LEASE,
        ..LeasedSetup::default()
    };
    let app = LeasedApp::on(&pool, setup, Order::default()).await;
    let charging = app.order.gates.at("charging");
    charging.close();
    let running = app.order("k").start();
    charging.until_arrived(1).await;
    breaker.cut();
    // Longer than the lease: nobody else was there to take over.
    tokio::time::sleep(2 * LEASE).await;
    breaker.mend();
    charging.open();
    let answer = running.answer().await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.json::<Value>()["attempt"], 1);
}

/// The database's sessions end, as when it is restarted, at each point of an order.
async fn an_order_survives_the_end_of_its_sessions(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let psp = Psp::start().await;
    let server = serve(&database, &psp, &[]).await;
    for point in POINTS {
        let running = stop_at(&server, point).await;
        let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                   where datname = current_database() and pid <> pg_backend_pid()";
        database.pool().number(end).await;
        server.open(Door::Point(point)).await;
        let answer = running.answer().await;
        assert!(matches!(answer.status, 201 | 503), "{point}: {answer:?}");
        let answer = retry(&server, point).await;
        assert_once(&database, &psp, &answer, point).await;
    }
    assert_charges(&psp, POINTS.len()).await;
}

stamp!(
    a_provider_that_charges_and_drops_the_connection_charges_once,
    a_provider_that_is_down_costs_nothing_but_time,
    a_provider_that_dies_after_its_charge_charges_once,
    a_card_that_is_down_is_not_charged,
);
stamp!(
    postgres: an_order_survives_the_loss_of_its_database_at_every_point,
    a_run_outlives_a_short_loss_of_its_database,
    an_order_survives_the_end_of_its_sessions,
);
