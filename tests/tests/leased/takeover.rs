//! Take-over while the first owner is alive: it changes nothing any more, and its client never
//! hears its own version.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use idem_runtime::KeyState;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{AnyLease, LeasedApp, LeasedSetup, POINTS};
use idem_tests::{Gate, Kind};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{Two, end_leases, end_retention, steps, until};

/// Stops the first owner at the point, lets the second take over, and lets the first go on.
async fn assert_the_first_owner_is_fenced(two: &Two, kind: Kind, point: &str) {
    let Two {
        first,
        second,
        database,
    } = two;
    let before = (database.effects().await, steps(database).await);
    let slow = two.abandon(kind, first.order(point), point).await;

    let answer = second.order(point).await;
    assert_eq!(
        (answer.status, answer.is_replay()),
        (201, false),
        "{point}: {answer:?}"
    );
    assert_eq!(answer.json::<Value>()["attempt"], 2, "{point}");
    first.order.gates.at(point).open();

    slow.answer().await.assert_replays(&answer);
    second.order(point).await.assert_replays(&answer);
    let after = (database.effects().await, steps(database).await);
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 3), "{point}");
}

async fn an_owner_that_lost_its_lease_answers_what_the_new_owner_stored(kind: Kind) {
    let two = Two::start(kind).await;
    for point in POINTS {
        // On SQLite nobody can write while a transaction is open, so nobody can take over then.
        if kind == Kind::Postgres || !matches!(point, "reserving" | "confirming") {
            assert_the_first_owner_is_fenced(&two, kind, point).await;
        }
    }
}

/// While the new owner is not done either, the old owner's client is told to come again.
async fn an_owner_that_lost_its_lease_answers_409_while_the_new_one_runs(kind: Kind) {
    let two = Two::start(kind).await;
    let Two {
        first,
        second,
        database,
    } = &two;
    for point in ["claimed", "charged", "recorded", "confirmed"] {
        let before = database.effects().await;
        let slow = two.abandon(kind, first.order(point), point).await;
        let running = two.run_to(second.order(point), "confirmed").await;

        first.order.gates.at(point).open();
        slow.answer().await.assert_refused(409, "in-progress");
        second.order.gates.at("confirmed").open();
        let answer = running.answer().await;
        assert_eq!(
            (answer.status, answer.is_replay()),
            (201, false),
            "{point}: {answer:?}"
        );
        first.order(point).await.assert_replays(&answer);
        assert_eq!(two.effects_since(before).await, 2, "{point}");
    }
}

/// The run goes on, but a retry at its own process finds what the new owner stored.
async fn a_process_whose_lease_is_lost_does_not_keep_the_key(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let short = LeasedSetup {
        lease: Duration::from_millis(600),
        ..LeasedSetup::default()
    };
    let first = LeasedApp::with(&database, short).await;
    let second = LeasedApp::start(&database).await;
    let confirmed = first.order.gates.at("confirmed");
    confirmed.close();
    let slow = first.order("k").start();
    confirmed.until_arrived(1).await;
    let mut answer = second.order("k").await;
    while answer.status == 409 {
        // The heartbeat may have been quicker.
        end_leases(&database, kind).await;
        answer = second.order("k").await;
    }
    assert_eq!(answer.status, 201, "{answer:?}");

    until("the heartbeat finds the lease lost", async || {
        first.order("k").await.status != 409
    })
    .await;
    first.order("k").await.assert_replays(&answer);
    confirmed.open();
    slow.answer().await.assert_replays(&answer);
}

type Failure = fn() -> Response;

/// A stale owner that fails must not free what is another's now.
async fn a_stale_owner_that_fails_does_not_free_the_key(kind: Kind) {
    let two = Two::start(kind).await;
    let Two {
        first,
        second,
        database,
    } = &two;
    let failures: [(&str, Failure); 2] = [
        ("fails", || StatusCode::SERVICE_UNAVAILABLE.into_response()),
        ("panics", || panic!("on purpose")),
    ];
    for (key, fails) in failures {
        let gate = Gate::default();
        let held = gate.clone();
        first.handler(move |_| {
            let held = held.clone();
            async move {
                held.pass().await;
                fails()
            }
            .boxed()
        });
        gate.close();
        let slow = first.order(key).start();
        gate.until_arrived(1).await;
        end_leases(database, kind).await;
        let running = two.run_to(second.order(key), "claimed").await;
        let lease = second.find(key).await.locked_until;

        gate.open();
        slow.answer().await.assert_refused(409, "in-progress");
        let found = second.find(key).await;
        assert_eq!((found.state, found.attempt), (KeyState::InProgress, 2));
        assert_eq!(found.locked_until, lease);
        first.order(key).await.assert_refused(409, "in-progress");

        second.order.gates.at("claimed").open();
        assert_eq!(running.answer().await.status, 201);
    }
}

/// What the steps of a run come to, told to the test.
fn reporting(app: &LeasedApp, gate: &Gate) -> mpsc::UnboundedReceiver<String> {
    let (report, reports) = mpsc::unbounded_channel();
    let gate = gate.clone();
    app.handler(move |lease| {
        let (report, gate) = (report.clone(), gate.clone());
        async move {
            let told = try_everything(lease, &gate).await;
            for told in told {
                report.send(told).expect("the test listens");
            }
            StatusCode::CREATED.into_response()
        }
        .boxed()
    });
    reports
}

async fn try_everything(lease: AnyLease<'_>, gate: &Gate) -> [String; 4] {
    let late = async || {
        gate.pass().await;
        Ok::<_, StatusCode>(())
    };
    let called = Arc::new(Gate::default());
    let after = async || {
        called.arrive();
        Ok::<_, StatusCode>(())
    };
    [
        format!("{:?}", lease.step("late", late).await),
        format!("{:?}", lease.step("call", after).await),
        format!("{:?}", lease.effect("write", &called).await),
        format!("called {}", called.arrived()),
    ]
}

async fn the_steps_of_a_stale_owner_say_that_the_lease_is_lost(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let gate = Gate::default();
    let mut reports = reporting(&first, &gate);
    gate.close();
    let slow = first.order("k").start();
    gate.until_arrived(1).await;
    end_leases(&database, kind).await;
    second.handler(|_| async { "the new owner".into_response() }.boxed());
    let answer = second.order("k").await;
    assert_eq!(answer.body, "the new owner");

    gate.open();
    for expected in [
        "Err(LeaseLost)",
        "Err(LeaseLost)",
        "Err(LeaseLost)",
        "called 0",
    ] {
        assert_eq!(reports.recv().await.expect("a report"), expected);
    }
    slow.answer().await.assert_replays(&answer);
    assert_eq!(database.effects().await, 0);
}

/// The record of a step that the old owner finishes late would be read as the new owner's.
async fn a_stale_owner_records_no_step(kind: Kind) {
    let two = Two::start(kind).await;
    let Two { first, second, .. } = &two;
    let slow = two.abandon(kind, first.order("k"), "charged").await;
    let running = two.run_to(second.order("k"), "claimed").await;

    first.order.gates.at("charged").open();
    slow.answer().await.assert_refused(409, "in-progress");
    let steps = second.find("k").await.steps;
    let steps: Vec<_> = steps
        .iter()
        .map(|step| (&*step.name, step.finished))
        .collect();
    assert_eq!(steps, [("charge", false), ("reserve", true)]);
    second.order.gates.at("claimed").open();
    assert_eq!(running.answer().await.status, 201);
}

/// A key that expired, was swept, and was claimed anew counts its attempts from 1 again: an owner
/// from before must not pass for the new one.
async fn an_owner_from_an_earlier_life_of_the_key_is_fenced(kind: Kind) {
    let two = Two::start(kind).await;
    let Two {
        first,
        second,
        database,
    } = &two;
    for point in ["claimed", "charging", "recorded", "confirmed"] {
        let slow = two.abandon(kind, first.order(point), point).await;
        end_retention(database, kind).await;
        if point != "claimed" {
            // Swept or not, the key is new.
            assert!(second.handle.sweep().await.expect("a sweep") > 0);
        }
        let running = two.run_to(second.order(point), "charged").await;
        let key = second.find(point).await;
        assert_eq!(key.attempt, 1, "{point}");

        first.order.gates.at(point).open();
        slow.answer().await.assert_refused(409, "in-progress");
        assert_eq!(
            second.find(point).await.locked_until,
            key.locked_until,
            "{point}"
        );
        second.order.gates.at("charged").open();
        let answer = running.answer().await;
        assert_eq!(
            (answer.status, answer.is_replay()),
            (201, false),
            "{point}: {answer:?}"
        );
        assert_eq!(answer.json::<Value>()["attempt"], 1, "{point}");
        first.order(point).await.assert_replays(&answer);
    }
}

/// Of many that see the lease end at the same moment, one takes over.
async fn one_of_many_takes_over(kind: Kind) {
    let two = Two::start(kind).await;
    let Two {
        first,
        second,
        database,
    } = &two;
    let third = LeasedApp::start(database).await;
    let slow = two.abandon(kind, first.order("k"), "recorded").await;

    let claims: Vec<_> = (0..6)
        .map(|number| if number % 2 == 0 { second } else { &third })
        .map(|app| app.order("k").start())
        .collect();
    let mut ran = 0;
    for claim in claims {
        let answer = claim.answer().await;
        match answer.status {
            201 => ran += usize::from(!answer.is_replay()),
            409 => answer.assert_refused(409, "in-progress"),
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!((ran, database.effects().await), (1, 2));
    first.order.gates.at("recorded").open();
    assert!(slow.answer().await.is_replay());
}

stamp!(
    an_owner_that_lost_its_lease_answers_what_the_new_owner_stored,
    an_owner_that_lost_its_lease_answers_409_while_the_new_one_runs,
    a_process_whose_lease_is_lost_does_not_keep_the_key,
    a_stale_owner_that_fails_does_not_free_the_key,
    the_steps_of_a_stale_owner_say_that_the_lease_is_lost,
    a_stale_owner_records_no_step,
    an_owner_from_an_earlier_life_of_the_key_is_fenced,
    one_of_many_takes_over,
);
