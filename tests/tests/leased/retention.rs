//! Time: the lease and the ttl on the database's clock, the heartbeat, the sweep, and the drain.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::FutureExt;
use idem_runtime::KeyState;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{LeasedApp, LeasedSetup};
use idem_tests::{Gate, Kind};
use serde_json::Value;

use crate::{Two, end_leases, end_retention, steps, until};

const SHORT: LeasedSetup = LeasedSetup {
    lease: Duration::from_millis(600),
    wait: Duration::ZERO,
    ttl: Duration::from_hours(1),
    pool_size: 5,
    settings: &[],
};

/// Waits until three leases have passed since the claim, and that the lease was renewed all along.
async fn until_renewed(app: &LeasedApp) {
    let claimed = app.find("k").await;
    until("the lease has been renewed", async || {
        let key = app.find("k").await;
        assert_eq!(
            (key.state, key.attempt),
            (KeyState::InProgress, 1),
            "{key:?}"
        );
        key.locked_until.expect("a lease") > claimed.created_at + 3 * SHORT.lease
    })
    .await;
}

async fn a_heartbeat_keeps_a_long_run_alive(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let first = LeasedApp::with(&database, SHORT).await;
    let second = LeasedApp::with(&database, SHORT).await;
    // In a step, which is what takes long.
    let charging = first.order.gates.at("charging");
    charging.close();
    let running = first.order("k").start();
    charging.until_arrived(1).await;
    until_renewed(&second).await;
    second.order("k").await.assert_refused(409, "in-progress");

    charging.open();
    let answer = running.answer().await;
    assert_eq!(answer.json::<Value>()["attempt"], 1);
    second.order("k").await.assert_replays(&answer);
}

/// A transaction step keeps SQLite's one writer, and so the heartbeat from renewing; but nobody can
/// take over meanwhile, and the step's own end renews the lease.
async fn a_long_transaction_step_outlives_the_lease(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let app = LeasedApp::with(&database, SHORT).await;
    let confirming = app.order.gates.at("confirming");
    confirming.close();
    let running = app.order("k").start();
    confirming.until_arrived(1).await;
    let claimed = app.find("k").await;
    until("the lease is over", async || {
        tokio::time::sleep(SHORT.lease / 4).await;
        let now = std::time::SystemTime::now();
        now > claimed.locked_until.expect("a lease") + SHORT.lease
    })
    .await;
    confirming.open();
    let answer = running.answer().await;
    assert_eq!(
        (answer.status, answer.json::<Value>()["attempt"].clone()),
        (201, 1.into())
    );
    assert_eq!(database.effects().await, 2);
}

/// The heartbeat finds no connection while the transaction step has the only one.
async fn a_pool_of_one_is_enough(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let narrow = LeasedSetup {
        pool_size: 1,
        ..SHORT
    };
    let app = LeasedApp::with(&database, narrow).await;
    let orders: Vec<_> = (0..5)
        .map(|number| app.order(&format!("k{number}")).start())
        .collect();
    for order in orders {
        assert_eq!(order.answer().await.status, 201);
    }
    assert_eq!(database.effects().await, 10);
}

async fn an_expired_key_runs_anew_without_the_old_steps(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    assert_eq!(first.order("k").await.status, 201);
    end_retention(&database, kind).await;
    assert_eq!(second.find("k").await.state, KeyState::Expired);

    let anew = second.order_with("k", "card_other").await;
    assert_eq!((anew.status, anew.is_replay()), (201, false), "{anew:?}");
    assert_eq!(anew.json::<Value>()["attempt"], 1);
    assert_eq!((database.effects().await, steps(&database).await), (4, 3));
}

async fn an_expired_half_finished_key_runs_anew_without_the_old_steps(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    first.handler(|lease| {
        async move {
            lease
                .effect("reserve", &Gate::default())
                .await
                .expect("an effect");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        .boxed()
    });
    assert_eq!(first.order("k").await.status, 503);
    end_retention(&database, kind).await;
    let anew = second.order("k").await;
    assert_eq!(
        (anew.status, anew.json::<Value>()["attempt"].clone()),
        (201, 1.into())
    );
    assert_eq!((database.effects().await, steps(&database).await), (3, 3));
}

async fn a_sweep_removes_expired_keys_with_their_steps(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    for key in ["k", "l"] {
        assert_eq!(first.order(key).await.status, 201);
    }
    assert_eq!(second.handle.sweep().await.expect("a sweep"), 0);
    assert_eq!(steps(&database).await, 6);
    end_retention(&database, kind).await;
    assert_eq!(first.order("m").await.status, 201);
    assert_eq!(second.handle.sweep().await.expect("a sweep"), 2);
    assert_eq!((database.keys().await, steps(&database).await), (1, 3));
}

/// Whatever else its row says, a key with a live lease is not swept.
async fn a_sweep_never_touches_a_live_lease(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let recorded = first.order.gates.at("recorded");
    recorded.close();
    let running = first.order("k").start();
    recorded.until_arrived(1).await;
    end_retention(&database, kind).await;
    assert_eq!(second.handle.sweep().await.expect("a sweep"), 0);
    second.order("k").await.assert_refused(409, "in-progress");

    recorded.open();
    let answer = running.answer().await;
    assert_eq!(answer.status, 201, "{answer:?}");
    second.order("k").await.assert_replays(&answer);

    end_leases(&database, kind).await;
    assert_eq!(second.handle.sweep().await.expect("a sweep"), 0);
}

async fn a_drain_waits_for_leased_runs(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let charging = first.order.gates.at("charging");
    charging.close();
    let left = first.order("k").start();
    charging.until_arrived(1).await;
    left.leave();

    assert!(
        !first.handle.drain(Duration::from_millis(10)).await,
        "a run is there"
    );
    first.order("l").await.assert_refused(503, "shutting-down");
    charging.open();
    assert!(first.handle.drain(Duration::from_mins(1)).await);
    let replay = second.order("k").await;
    assert_eq!(
        (replay.status, replay.is_replay()),
        (201, true),
        "{replay:?}"
    );
    assert_eq!(database.effects().await, 2);
}

stamp!(
    a_heartbeat_keeps_a_long_run_alive,
    a_pool_of_one_is_enough,
    an_expired_key_runs_anew_without_the_old_steps,
    an_expired_half_finished_key_runs_anew_without_the_old_steps,
    a_sweep_removes_expired_keys_with_their_steps,
    a_sweep_never_touches_a_live_lease,
    a_drain_waits_for_leased_runs,
);
stamp!(sqlite: a_long_transaction_step_outlives_the_lease);
