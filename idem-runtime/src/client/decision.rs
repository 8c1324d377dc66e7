//! What follows from an attempt. Pure: (policy, request, attempts, outcome) to decision.

use std::time::Duration;

use http::{Method, StatusCode};

use super::attempt::AttemptOutcome;
use super::backoff;
use super::error::GaveUp;
use super::policy::RetryPolicy;

/// What an attempt says about the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) outcome: AttemptOutcome,
    /// What the problem in the body says, if it is one; a replay is not.
    pub(crate) retryable: Option<bool>,
    pub(crate) retry_after: Option<Duration>,
}

impl Facts {
    pub(crate) const fn unanswered(outcome: AttemptOutcome) -> Self {
        Self {
            outcome,
            retryable: None,
            retry_after: None,
        }
    }
}

/// How much of the budgets is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The attempts that have facts.
    pub(crate) attempts: u32,
    /// Since the first attempt began.
    pub(crate) elapsed: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The server has decided.
    Deliver,
    Retry {
        wait: Duration,
    },
    GiveUp(GaveUp),
}

/// Whether the server may get this request more than once.
pub(crate) fn may_repeat(method: &Method, has_key: bool) -> bool {
    has_key || method.is_safe()
}

/// Decides whether to retry, and when.
pub(crate) fn decide(
    policy: &RetryPolicy,
    may_repeat: bool,
    facts: &Facts,
    progress: Progress,
    random: u32,
) -> Decision {
    match facts.outcome {
        AttemptOutcome::Failed => return Decision::GiveUp(GaveUp::Permanent),
        AttemptOutcome::Answered(status) if !passes(status, facts) => return Decision::Deliver,
        _ => {}
    }
    if !may_repeat {
        return Decision::GiveUp(GaveUp::NoKey);
    }
    if progress.attempts >= policy.max_attempts {
        return Decision::GiveUp(GaveUp::Attempts);
    }
    let ceiling = backoff::ceiling(policy, progress.attempts);
    let wait = facts
        .retry_after
        .unwrap_or_default()
        .saturating_add(backoff::jittered(ceiling, random));
    if wait >= policy.time_budget.saturating_sub(progress.elapsed) {
        return Decision::GiveUp(GaveUp::Time);
    }
    Decision::Retry { wait }
}

/// Whether the answer is one that time may heal.
fn passes(status: StatusCode, facts: &Facts) -> bool {
    match status {
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_EARLY
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::INTERNAL_SERVER_ERROR
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => facts.retryable != Some(false),
        // The first request is in progress, or the application has a conflict that stays.
        StatusCode::CONFLICT => facts.retryable.unwrap_or(facts.retry_after.is_some()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy::new();
    const BEGINNING: Progress = Progress {
        attempts: 1,
        elapsed: Duration::ZERO,
    };

    fn answered(status: u16) -> Facts {
        let status = StatusCode::from_u16(status).expect("a status");
        Facts::unanswered(AttemptOutcome::Answered(status))
    }

    fn retried(facts: &Facts) -> bool {
        match decide(&POLICY, true, facts, BEGINNING, 0) {
            Decision::Retry { .. } => true,
            Decision::Deliver => false,
            Decision::GiveUp(reason) => panic!("{reason:?} after {facts:?}"),
        }
    }

    #[test]
    fn each_status_is_retried_or_final() {
        let transient = [408, 425, 429, 500, 502, 503, 504];
        for status in 100..1000 {
            let expected = transient.contains(&status);
            assert_eq!(retried(&answered(status)), expected, "{status}");
            let problem = |retryable| Facts {
                retryable: Some(retryable),
                ..answered(status)
            };
            assert!(!retried(&problem(false)), "{status}");
            let expected = expected || status == 409;
            assert_eq!(retried(&problem(true)), expected, "{status}");
        }
    }

    #[test]
    fn a_conflict_passes_if_it_says_so() {
        let conflict = |retryable, retry_after| Facts {
            retryable,
            retry_after,
            ..answered(409)
        };
        let soon = Some(Duration::from_secs(1));
        assert!(!retried(&conflict(None, None)));
        assert!(retried(&conflict(None, soon)));
        assert!(retried(&conflict(Some(true), None)));
        assert!(!retried(&conflict(Some(false), soon)));
    }

    #[test]
    fn retry_after_is_the_least_wait() {
        let facts = Facts {
            retry_after: Some(Duration::from_secs(3)),
            ..answered(503)
        };
        for (random, wait) in [(0, 3000), (u32::MAX, 3200)] {
            let wait = Duration::from_millis(wait);
            let decision = decide(&POLICY, true, &facts, BEGINNING, random);
            assert_eq!(decision, Decision::Retry { wait });
        }
    }

    #[test]
    fn a_wait_that_would_not_end_in_time_is_not_begun() {
        let policy = POLICY.time_budget(Duration::from_secs(10));
        let progress = Progress {
            attempts: 1,
            elapsed: Duration::from_secs(4),
        };
        for (seconds, in_time) in [(5, true), (6, false), (u64::MAX, false)] {
            let facts = Facts {
                retry_after: Some(Duration::from_secs(seconds)),
                ..answered(503)
            };
            let retried = Decision::Retry {
                wait: Duration::from_secs(seconds),
            };
            let given_up = Decision::GiveUp(GaveUp::Time);
            let expected = if in_time { retried } else { given_up };
            assert_eq!(decide(&policy, true, &facts, progress, 0), expected);
        }
    }

    #[test]
    fn the_attempts_are_counted() {
        let policy = POLICY.max_attempts(3);
        for (attempts, more) in [(1, true), (2, true), (3, false), (u32::MAX, false)] {
            let progress = Progress {
                attempts,
                ..BEGINNING
            };
            let decision = decide(&policy, true, &answered(503), progress, 0);
            let given_up = Decision::GiveUp(GaveUp::Attempts);
            assert_eq!(decision != given_up, more, "{attempts}");
        }
    }

    /// The first attempt ends with its time-out; the others are told that it is in progress.
    #[test]
    fn the_defaults_outlast_a_handler_that_needs_a_minute() {
        let minute = Duration::from_mins(1);
        let in_progress = Facts {
            retryable: Some(true),
            retry_after: Some(Duration::from_secs(1)),
            ..answered(409)
        };
        let mut random = 1_u64;
        for run in 0..10_000 {
            let mut facts = Facts::unanswered(AttemptOutcome::TimedOut);
            let mut progress = Progress {
                elapsed: POLICY.attempt_timeout,
                ..BEGINNING
            };
            while progress.elapsed < minute {
                // The generator of D. Knuth's MMIX; its upper half is random enough.
                random = random.wrapping_mul(6_364_136_223_846_793_005);
                random = random.wrapping_add(1_442_695_040_888_963_407);
                let decision = decide(&POLICY, true, &facts, progress, (random >> 32) as u32);
                let Decision::Retry { wait } = decision else {
                    panic!("run {run}: {decision:?} after {progress:?}");
                };
                facts = in_progress;
                progress.attempts += 1;
                progress.elapsed += wait;
            }
        }
    }

    #[test]
    fn an_unsafe_method_needs_a_key() {
        for (method, safe) in [
            (Method::GET, true),
            (Method::HEAD, true),
            (Method::OPTIONS, true),
            (Method::TRACE, true),
            (Method::POST, false),
            (Method::PUT, false),
            (Method::PATCH, false),
            (Method::DELETE, false),
        ] {
            assert_eq!(may_repeat(&method, false), safe, "{method}");
            assert!(may_repeat(&method, true), "{method}");
        }
        let lost = Facts::unanswered(AttemptOutcome::ConnectionLost);
        for facts in [answered(503), lost] {
            let decision = decide(&POLICY, false, &facts, BEGINNING, 0);
            assert_eq!(decision, Decision::GiveUp(GaveUp::NoKey));
        }
        let decision = decide(&POLICY, false, &answered(422), BEGINNING, 0);
        assert_eq!(decision, Decision::Deliver);
    }

    #[test]
    fn what_cannot_be_sent_is_not_tried_again() {
        let facts = Facts::unanswered(AttemptOutcome::Failed);
        let decision = decide(&POLICY, true, &facts, BEGINNING, 0);
        assert_eq!(decision, Decision::GiveUp(GaveUp::Permanent));
    }
}
