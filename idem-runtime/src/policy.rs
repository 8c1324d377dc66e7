//! What an attribute says: the options of one scope, with their defaults and limits.

use std::time::Duration;

use crate::record::Record;

/// The options of one annotated handler, as constants.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub(crate) scope: &'static str,
    pub(crate) ttl: Duration,
    pub(crate) key: KeySource,
    pub(crate) required: bool,
    pub(crate) wait: Duration,
    pub(crate) timeout: Duration,
    pub(crate) record: Record,
    pub(crate) max_response: usize,
    pub(crate) lease: Duration,
    pub(crate) on_takeover: OnTakeover,
}

/// What a leased run does about a step that was begun and not finished, the attribute's
/// `on_takeover` option.
///
/// Such a step may or may not have happened: its last owner died, lost its lease, or got an `Err`
/// from the step's work. An error is no proof either, since a call that timed out may have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTakeover {
    /// Run it again, under the same derived key.
    Resume,
    /// Leave the key to an operator. Under this a step whose work returned `Err` parks the key on
    /// the next retry: return as `Ok` what is known not to have happened.
    Reconcile,
}

/// Where the key comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeySource {
    /// A header, by its lower-case name.
    Header(&'static str),
    /// An expression over the handler's arguments.
    Arguments,
}

/// The shortest and the longest ttl: 1 second and 400 days.
pub(crate) const TTL_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(400 * 24);

/// The shortest and the longest lease. A shorter one would be over between two statements.
pub(crate) const LEASE_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_hours(400 * 24);

/// Cuts a time down to 400 days, so that an instant that much later exists.
pub(crate) const fn bounded(time: Duration) -> Duration {
    let longest = *TTL_RANGE.end();
    if time.as_secs() < longest.as_secs() {
        time
    } else {
        longest
    }
}

impl Policy {
    /// The defaults of every option but the scope.
    #[must_use]
    pub const fn new(scope: &'static str) -> Self {
        Self {
            scope,
            ttl: Duration::from_hours(24),
            key: KeySource::Header("idempotency-key"),
            required: true,
            wait: Duration::ZERO,
            timeout: Duration::from_mins(1),
            record: Record::Deterministic,
            max_response: 1024 * 1024,
            lease: Duration::from_secs(30),
            on_takeover: OnTakeover::Resume,
        }
    }
}

/// One `const` setter for each option, since the expansion builds the policy in a constant.
macro_rules! setters {
    ($($(#[$doc:meta])* $option:ident: $type:ty,)*) => {
        impl Policy {
            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $option(mut self, $option: $type) -> Self {
                    self.$option = $option;
                    self
                }
            )*
        }
    };
}

setters! {
    /// How long a response is kept.
    ttl: Duration,
    /// Whether a request without a key is refused.
    required: bool,
    /// How long a duplicate waits for the first.
    wait: Duration,
    /// How long the handler may run.
    timeout: Duration,
    /// Which responses are kept.
    record: Record,
    /// The largest body that is stored, in bytes.
    max_response: usize,
    /// How long a claim survives its owner.
    lease: Duration,
    /// What a take-over does about an unfinished step.
    on_takeover: OnTakeover,
}

impl Policy {
    /// The key is in the header of this lower-case name.
    #[must_use]
    pub const fn key_header(mut self, name: &'static str) -> Self {
        self.key = KeySource::Header(name);
        self
    }

    /// The key is an expression over the handler's arguments.
    #[must_use]
    pub const fn key_from_arguments(mut self) -> Self {
        self.key = KeySource::Arguments;
        self
    }
}

/// Stops the build when a scope given as a path breaks the rule: 1 to 64 of `[a-z0-9._-]`.
///
/// # Panics
/// In a constant, where the panic is the compile-time error.
// The caller is where the build stops, not a line in here.
#[track_caller]
pub const fn check_scope(scope: &str) {
    assert!(
        is_scope(scope),
        "`scope` needs 1 to 64 characters of a-z, 0-9, `.`, `_`, and `-`"
    );
}

pub(crate) const fn is_scope(scope: &str) -> bool {
    let bytes = scope.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-') {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= 64
}

/// What an operator changes for one scope in an incident, over what the attribute says.
///
/// ```
/// # use idem_runtime::Overrides;
/// # use std::time::Duration;
/// let patient = Overrides::new().wait(Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides {
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_response: Option<usize>,
    pub(crate) lease: Option<Duration>,
}

impl Overrides {
    /// Changes nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ttl: None,
            wait: None,
            timeout: None,
            max_response: None,
            lease: None,
        }
    }

    /// Sets how long a response is kept: 1 second to 400 days.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long a duplicate waits for the first; zero answers 409 at once, and no wait is longer
    /// than 400 days.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(bounded(wait));
        self
    }

    /// Sets how long the handler may run; must be positive, and counts as 400 days at most.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(bounded(timeout));
        self
    }

    /// Sets the largest response body that is stored, in bytes.
    #[must_use]
    pub const fn max_response(mut self, bytes: usize) -> Self {
        self.max_response = Some(bytes);
        self
    }

    /// Sets how long a leased claim survives its owner's death: 100 milliseconds to 400 days.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Lays the overrides over a policy.
    pub(crate) fn apply(&self, mut policy: Policy) -> Policy {
        policy.ttl = self.ttl.unwrap_or(policy.ttl);
        policy.wait = self.wait.unwrap_or(policy.wait);
        policy.timeout = self.timeout.unwrap_or(policy.timeout);
        policy.max_response = self.max_response.unwrap_or(policy.max_response);
        policy.lease = self.lease.unwrap_or(policy.lease);
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_short_and_plain() {
        let long = "s".repeat(65);
        for bad in [
            "",
            "Payments",
            "pay ments",
            "pay/ments",
            "z\u{e4}hler",
            long.as_str(),
        ] {
            assert!(!is_scope(bad), "{bad:?}");
        }
        for good in ["payments.create", "a", &long[..64], "0-9_x"] {
            assert!(is_scope(good), "{good:?}");
        }
    }

    #[test]
    fn overrides_win_over_the_attribute() {
        let policy = Policy::new("s")
            .wait(Duration::from_secs(1))
            .max_response(10);
        let changed = Overrides::new().wait(Duration::ZERO).apply(policy);
        assert_eq!(changed.wait, Duration::ZERO);
        assert_eq!(changed.max_response, 10);
    }
}
