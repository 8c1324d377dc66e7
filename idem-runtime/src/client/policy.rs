//! How often and how long an operation is tried.

use std::time::Duration;

/// Says how often and how long an operation is tried.
///
/// The wait before a retry is random, between zero and a ceiling that doubles with each attempt
/// (exponential backoff with full jitter). What `Retry-After` asks for comes on top of it, so that
/// the clients which were told the same instant do not all come back at it.
///
/// ```
/// # use idem_runtime::client::RetryPolicy;
/// # use std::time::Duration;
/// const IMPATIENT: RetryPolicy = RetryPolicy::new()
///     .max_attempts(3)
///     .time_budget(Duration::from_secs(5))
///     .attempt_timeout(Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(crate) max_attempts: u32,
    pub(crate) time_budget: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) base_delay: Duration,
    pub(crate) max_delay: Duration,
    pub(crate) max_buffered: usize,
}

impl RetryPolicy {
    /// Returns the defaults: 15 attempts within 2 minutes, each at most 30 seconds long; waits
    /// below 200 milliseconds at first and 20 seconds at last; 1 MiB of a response is buffered.
    ///
    /// They outlast a handler that needs a minute, the server side's default.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_attempts: 15,
            time_budget: Duration::from_mins(2),
            attempt_timeout: Duration::from_secs(30),
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(20),
            max_buffered: 1024 * 1024,
        }
    }

    /// Sets the largest number of attempts, the first one included; 0 counts as 1.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets how long all attempts and waits may take together.
    ///
    /// A wait that would not end within it is not begun, however long the server asked to wait.
    #[must_use]
    pub const fn time_budget(mut self, budget: Duration) -> Self {
        self.time_budget = budget;
        self
    }

    /// Sets how long one attempt may take until its response is complete, or buffered as far as
    /// [`max_buffered`](Self::max_buffered) goes.
    #[must_use]
    pub const fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets the ceiling of the first wait; it doubles with each attempt.
    #[must_use]
    pub const fn base_delay(mut self, delay: Duration) -> Self {
        self.base_delay = delay;
        self
    }

    /// Sets where the ceiling of the waits stops growing.
    #[must_use]
    pub const fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Sets how many bytes of a response body are read within the attempt.
    ///
    /// A response that is cut off within them is retried; what comes after them is left to the
    /// caller to read, who gets the whole body in either case. An event stream is never read ahead,
    /// a problem always up to 64 KiB. Set it to 0 for other responses that come bit by bit.
    #[must_use]
    pub const fn max_buffered(mut self, bytes: usize) -> Self {
        self.max_buffered = bytes;
        self
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}
