//! A door in the middle of the code under test, whose key the test has.

use std::time::Duration;

use tokio::sync::watch;

/// Holds whoever passes while it is closed, and tells the test who came.
///
/// It is open to begin with.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    /// Who comes later than this many others may pass.
    held: usize,
    arrived: usize,
}

/// Long enough for any machine; only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_mins(1);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(State {
            held: 0,
            arrived: 0,
        }))
    }
}

impl Gate {
    /// Holds everybody who comes from now on.
    pub fn close(&self) {
        self.0.send_modify(|state| state.held = usize::MAX);
    }

    /// Lets everybody pass.
    pub fn open(&self) {
        self.0.send_modify(|state| state.held = 0);
    }

    /// Lets everybody pass who comes from now on, and goes on holding those who wait.
    pub fn open_for_newcomers(&self) {
        self.0.send_modify(|state| state.held = state.arrived);
    }

    /// Arrives, and waits while the gate is closed.
    pub async fn pass(&self) {
        let place = self.take_place();
        let mut state = self.0.subscribe();
        // The sender lives in `self`, so the channel cannot close meanwhile.
        let _ = state.wait_for(|state| state.held < place).await;
    }

    /// Arrives without waiting.
    pub fn arrive(&self) {
        self.take_place();
    }

    /// Arrives, and returns as which one.
    fn take_place(&self) -> usize {
        let mut place = 0;
        self.0.send_modify(|state| {
            state.arrived += 1;
            place = state.arrived;
        });
        place
    }

    /// Returns how many have arrived since the beginning.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.0.borrow().arrived
    }

    /// Waits until `count` have arrived since the beginning.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn until_arrived(&self, count: usize) {
        let mut state = self.0.subscribe();
        let arrived = state.wait_for(|state| state.arrived >= count);
        let came = tokio::time::timeout(PATIENCE, arrived).await.is_ok();
        assert!(
            came,
            "{} arrived at the gate, expected {count}",
            self.arrived()
        );
    }
}
