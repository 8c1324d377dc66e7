//! What is counted, with the feature `metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Everything that was counted, by name and labels.
#[derive(Clone, Debug, Default)]
pub struct Counted(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

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

    /// Returns a counter, or how many values a histogram has.
    ///
    /// # Panics
    /// When a test did while it counted.
    #[must_use]
    pub fn value(&self, name: &str) -> u64 {
        let counters = self.0.lock().expect("the counters");
        counters
            .get(name)
            .map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// Returns a gauge.
    #[must_use]
    pub fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.value(name))
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
