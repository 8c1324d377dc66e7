//! How a relay works, and how long it waits after a failure.

use std::time::Duration;

use crate::policy::LEASE_RANGE;

/// A shorter one would be over between two statements.
pub(super) const SHORTEST_LEASE: Duration = *LEASE_RANGE.start();

/// What the clocks of both databases can add.
pub(super) const LONGEST: Duration = *LEASE_RANGE.end();

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) concurrency: usize,
    pub(super) lease: Duration,
    pub(super) timeout: Duration,
    pub(super) max_attempts: u32,
    pub(super) backoff: (Duration, Duration),
    pub(super) poll: Duration,
    pub(super) retention: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 16,
            lease: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            max_attempts: 20,
            backoff: (Duration::from_secs(1), Duration::from_mins(5)),
            poll: Duration::from_secs(1),
            retention: Duration::from_hours(24),
        }
    }
}

impl Settings {
    /// How long one attempt may take: it must be over well before the lease is.
    pub(super) fn attempt_limit(&self) -> Duration {
        self.timeout.min(self.lease / 2)
    }

    /// The pause after so many failures. Without jitter: messages fail at times of their own.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        let (first, most) = self.backoff;
        let factor = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        first.saturating_mul(factor).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit() {
        let settings = Settings::default();
        let pauses = [1, 2, 3, 9, 10, 33, u32::MAX].map(|failures| settings.pause(failures));
        assert_eq!(
            pauses.map(|pause| pause.as_secs()),
            [1, 2, 4, 256, 300, 300, 300]
        );
    }
}
