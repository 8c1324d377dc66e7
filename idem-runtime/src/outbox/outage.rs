//! When the sink takes nothing at all, or the database leaves no time for it.

use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};

use super::attempt::Attempted;
use super::settings::Settings;

/// A time in which the sink takes nothing.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: u32,
    pub(super) until: Option<Instant>,
}

impl Outage {
    pub(super) fn is_over(&self) -> bool {
        self.until.is_none()
    }

    pub(super) async fn end(&self) {
        if let Some(until) = self.until {
            sleep_until(until).await;
        }
    }

    /// Learns from an attempt, and counts it if it was confirmed. One that panicked keeps its
    /// claim, and is another relay's when the lease is over.
    pub(super) fn learn(
        &mut self,
        attempted: Result<Attempted, JoinError>,
        settings: &Settings,
    ) -> u64 {
        match attempted {
            Ok(Attempted::Confirmed) => {
                *self = Self::default();
                return 1;
            }
            Ok(Attempted::Unavailable) if self.until.is_none() => {
                self.failures = self.failures.saturating_add(1);
                self.until = Some(Instant::now() + settings.pause(self.failures));
            }
            Ok(Attempted::Unavailable | Attempted::Failed) => {}
            Err(error) => tracing::error!(%error, "the sink panicked"),
        }
        0
    }
}
