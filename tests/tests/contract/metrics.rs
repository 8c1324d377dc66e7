//! What is counted, with the feature `metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::Response;
use idem_tests::{Kind, TestApp};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Everything that was counted on this thread, on which all of the test runs.
#[derive(Debug, Default)]
struct Counted(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counted {
    fn cell(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        Arc::clone(
            self.0
                .lock()
                .expect("the counters")
                .entry(name)
                .or_default(),
        )
    }

    fn value(&self, name: &str) -> u64 {
        let counters = self.0.lock().expect("the counters");
        counters
            .get(name)
            .map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
}

/// Counts the values that are recorded.
#[derive(Debug)]
struct CountOf(Arc<AtomicU64>);

impl HistogramFn for CountOf {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(CountOf(self.cell(key))))
    }
}

#[tokio::test]
async fn outcomes_are_counted_by_scope() {
    let counted = Counted::default();
    let _guard = metrics::set_default_local_recorder(&counted);
    let app = TestApp::start(Kind::Sqlite).await;
    let gauge = || f64::from_bits(counted.value("idempotency_in_flight"));

    let _ = app.post("/effects").key("k").await;
    let _ = app.post("/effects").key("k").await;
    let _ = app.post("/effects").key("k").body("another").await;
    let _ = app.post("/effects").await;

    app.script.gate.close();
    let first = app.post("/patient").key("k").start();
    app.script.gate.until_arrived(2).await;
    assert!((gauge() - 1.0).abs() < f64::EPSILON, "{}", gauge());
    let waiting = app.post("/patient").key("k").start();
    app.doors.entered.until_arrived(6).await;
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
    app.script.gate.until_arrived(6).await;
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
