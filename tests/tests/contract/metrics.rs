//! What is counted, with the feature `metrics`.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use idem_runtime::{Once, OnceError};
use idem_tests::app::Handle;
use idem_tests::client::Pending;
use idem_tests::counted::Counted;
use idem_tests::proxy::Fault;
use idem_tests::{Gate, Kind, Setup, TestApp};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use sqlx::SqliteConnection;

#[tokio::test]
async fn outcomes_are_counted_by_scope() {
    let counted = Counted::default();
    let _guard = metrics::set_default_local_recorder(&counted);
    let app = TestApp::start(Kind::Sqlite).await;
    let gauge = || counted.gauge("idempotency_in_flight");

    let _ = app.post("/effects").key("k").await;
    let _ = app.post("/effects").key("k").await;
    let _ = app.post("/effects").key("k").body("another").await;
    let _ = app.post("/effects").await;
    let _ = app.post("/optional").await;

    app.script.gate.close();
    let first = app.post("/patient").key("k").start();
    app.script.gate.until_arrived(3).await;
    assert!((gauge() - 1.0).abs() < f64::EPSILON, "{}", gauge());
    let waiting = app.post("/patient").key("k").start();
    app.doors.entered.until_arrived(7).await;
    app.script.gate.open();
    let _ = (first.answer().await, waiting.answer().await);
    assert!(gauge().abs() < f64::EPSILON, "{}", gauge());

    app.script.answer(|| "x".repeat(2000));
    let _ = app.post("/small").key("k").await;
    let _ = app.post("/small").key("k").await;
    app.script
        .answer(|| -> Response { panic!("as the test wants") });
    let _ = app.post("/effects").key("panics").await;
    app.script.answer(|| StatusCode::CREATED);
    app.script.statements(["commit"]);
    let _ = app.post("/effects").key("commits").await;
    app.script.statements([]);
    app.script.gate.close();
    let running = app.post("/effects").key("busy").start();
    app.script.gate.until_arrived(7).await;
    let _ = app.post("/effects").key("busy").await;
    app.script.gate.open();
    let _ = running.answer().await;
    app.pool.close().await;
    let _ = app.post("/effects").key("down").await;

    for (scope, outcome, count) in [
        ("effects", "executed", 2),
        ("effects", "replayed", 1),
        ("effects", "mismatch", 1),
        ("effects", "invalid_key", 1),
        ("effects", "handler_panic", 1),
        ("effects", "ended_by_handler", 1),
        ("effects", "conflict", 1),
        ("effects", "store_error", 1),
        ("effects.optional", "executed", 1),
        ("effects.patient", "executed", 1),
        ("effects.patient", "replayed_after_wait", 1),
        ("effects.small", "executed", 1),
        ("effects.small", "tombstoned", 1),
    ] {
        let name = format!("idempotency_requests_total scope={scope} outcome={outcome}");
        assert_eq!(counted.value(&name), count, "{name} in {counted:?}");
    }
    assert_eq!(
        counted.value("idempotency_store_seconds scope=effects.patient"),
        1
    );
}

/// An application behind a proxy, and one beside it that works on the key "k".
async fn in_flight_elsewhere() -> (TestApp, TestApp, Pending) {
    let setup = Setup {
        proxy: true,
        ..Setup::default()
    };
    let app = TestApp::with(Kind::Postgres, setup).await;
    let elsewhere = app.beside().await;
    elsewhere.script.gate.close();
    let first = elsewhere.post("/patient").key("k").start();
    elsewhere.script.gate.until_arrived(1).await;
    (app, elsewhere, first)
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_wait_for_another_process_is_counted_as_one() {
    let counted = Counted::default();
    let _guard = metrics::set_default_local_recorder(&counted);
    let (app, elsewhere, first) = in_flight_elsewhere().await;

    let waiting = app.post("/patient").key("k").start();
    // It has asked, and has let go of what it asked in.
    let proxy = app.proxy.as_ref().expect("a proxy");
    while !proxy.round_trips().iter().any(|sent| sent == "rollback") {
        tokio::task::yield_now().await;
    }
    elsewhere.script.gate.open();
    let first = first.answer().await;
    waiting.answer().await.assert_replays(&first);
    let name = "idempotency_requests_total scope=effects.patient outcome=replayed_after_wait";
    assert_eq!(counted.value(name), 1, "{counted:?}");
}

/// One that waits for another process waits for a newcomer of its own process too, which then finds the
/// answer.
#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_wait_for_another_process_counts_when_it_ends_in_memory() {
    let counted = Counted::default();
    let _guard = metrics::set_default_local_recorder(&counted);
    let (app, elsewhere, first) = in_flight_elsewhere().await;

    let proxy = app.proxy.as_ref().expect("a proxy");
    let asked = async || {
        while !proxy.round_trips().iter().any(|sent| sent == "rollback") {
            tokio::task::yield_now().await;
        }
    };
    let waiting = app.post("/patient").key("k").start();
    // By then it asks four times in a second.
    for _ in 0..5 {
        asked().await;
    }
    let late = Gate::default();
    late.close();
    proxy.fail("set transaction", Fault::Delay(late.clone()));
    let newcomer = app.post("/patient").key("k").start();
    late.until_arrived(1).await;
    elsewhere.script.gate.open();
    let first = first.answer().await;
    // Time for the first to ask again, and to find the newcomer at it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    late.open();
    for answer in [waiting, newcomer] {
        answer.answer().await.assert_replays(&first);
    }
    for outcome in ["replayed_after_wait", "replayed"] {
        let name = format!("idempotency_requests_total scope=effects.patient outcome={outcome}");
        assert_eq!(counted.value(&name), 1, "{name} in {counted:?}");
    }
}

/// Panics at a gauge for as long as it is told to.
struct Broken(Arc<AtomicBool>);

impl Recorder for Broken {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        assert!(!self.0.load(Ordering::Relaxed), "as the test wants");
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Panics as it goes, as the value of a handler may that is dropped when its time is over.
struct PanicsAtLast<F: Fn()>(F);

impl<F: Fn()> Drop for PanicsAtLast<F> {
    fn drop(&mut self) {
        (self.0)();
        panic!("as the test wants");
    }
}

/// Lets work run out of time, and panic as it is dropped; the task of the claim ends with it.
async fn panic_in_the_end(app: &TestApp, before: impl Fn() + Send + Sync + 'static) {
    let Handle::Sqlite(handle) = &app.handle else {
        panic!("on SQLite");
    };
    let once = Once::new("panics", "tenant", "k").expect("a key");
    let lost = PanicsAtLast(before);
    let work = async move |_: &mut SqliteConnection| {
        let _lost = lost;
        pending::<Result<(), ()>>().await
    };
    let lost = handle.once(once.timeout(Duration::from_millis(1)), work);
    let lost = lost.await.expect_err("a panic");
    assert!(matches!(lost, OnceError::OutcomeUnknown), "{lost:?}");
}

#[tokio::test]
async fn a_claim_that_ends_in_a_panic_is_counted_off() {
    let counted = Counted::default();
    let _guard = metrics::set_default_local_recorder(&counted);
    let app = TestApp::start(Kind::Sqlite).await;
    panic_in_the_end(&app, || {}).await;
    let gauge = counted.gauge("idempotency_in_flight");
    assert!(gauge.abs() < f64::EPSILON, "{gauge}");
}

/// Two panics at once would end the process.
#[tokio::test]
async fn a_recorder_that_panics_in_a_panic_keeps_no_key() {
    let broken = Arc::new(AtomicBool::new(false));
    let recorder = Broken(Arc::clone(&broken));
    let _guard = metrics::set_default_local_recorder(&recorder);
    let app = TestApp::start(Kind::Sqlite).await;
    for _ in 0..2 {
        let breaks = Arc::clone(&broken);
        panic_in_the_end(&app, move || breaks.store(true, Ordering::Relaxed)).await;
        broken.store(false, Ordering::Relaxed);
    }
    let answer = app.post("/effects").key("k").await;
    assert!(answer.status == 201 && !answer.is_replay(), "{answer:?}");
}

#[tokio::test]
async fn a_recorder_that_panics_keeps_no_key() {
    let broken = Arc::new(AtomicBool::new(true));
    let recorder = Broken(Arc::clone(&broken));
    let _guard = metrics::set_default_local_recorder(&recorder);
    let app = TestApp::start(Kind::Sqlite).await;
    let lost = app.post("/effects").key("k").start().answer_if_any().await;
    assert!(lost.is_none(), "{lost:?}");
    broken.store(false, Ordering::Relaxed);
    let answer = app.post("/effects").key("k").start().answer();
    let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
    assert_eq!(answer.expect("an answer").status, 201);
}
