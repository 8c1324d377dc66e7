//! When the client comes back. Time is paused: it jumps from one timer to the next while nobody
//! has anything to do, and client and server are on one thread, so that a byte which is under way
//! is work to do.

use std::time::Duration;

use idem_runtime::client::{Attempt, AttemptOutcome, GaveUp, RetryPolicy};
use tokio::time::Instant;

use crate::server::{Fault, answer};
use crate::{Outcome, outcomes, pay};

const POLICY: RetryPolicy = RetryPolicy::new();

/// Asserts that the wait before each retry was at least so many seconds, plus a random part below
/// the ceiling; and that this is the time that passed.
fn assert_waits(attempts: &[Attempt], asked: &[u64], passed: Duration) {
    assert_eq!(attempts.len(), asked.len() + 1);
    assert_eq!(attempts[0].waited, Duration::ZERO);
    let mut ceiling = Duration::from_millis(200);
    for (attempt, asked) in attempts[1..].iter().zip(asked) {
        let asked = Duration::from_secs(*asked);
        let bounds = asked..=asked + ceiling;
        assert!(
            bounds.contains(&attempt.waited),
            "{attempt:?} is not in {bounds:?}"
        );
        ceiling = (ceiling * 2).min(Duration::from_secs(20));
    }
    let waited: Duration = attempts.iter().map(|attempt| attempt.waited).sum();
    // The timer's steps are milliseconds.
    let rounding = Duration::from_millis(2) * u32::try_from(attempts.len()).expect("a few");
    assert!(
        waited <= passed && passed <= waited + rounding,
        "waited {waited:?} of {passed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_waits_grow_and_are_random() {
    let begun = Instant::now();
    let (_server, result) = pay(vec![answer(500, &[], ""); 9], &POLICY).await;
    let reply = result.expect("the tenth attempt succeeds");
    assert_waits(reply.attempts(), &[0; 9], begun.elapsed());
    // That all are short by chance happens once in 10^19 runs.
    let long = |attempt: &Attempt| attempt.waited > Duration::from_millis(20);
    assert!(reply.attempts().iter().any(long), "{:?}", reply.attempts());
}

#[tokio::test(start_paused = true)]
async fn two_operations_wait_differently() {
    let mut waits = Vec::new();
    for _ in 0..2 {
        let (_server, result) = pay([answer(500, &[], "")], &POLICY).await;
        waits.push(result.expect("an answer").attempts()[1].waited);
    }
    assert_ne!(waits[0], waits[1]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_in_seconds_is_honoured() {
    let asked = |status, seconds| answer(status, &[&format!("retry-after: {seconds}")], "");
    let script = [asked(503, 7), asked(429, 30), asked(409, 1), asked(500, 0)];
    let begun = Instant::now();
    let (_server, result) = pay(script, &POLICY).await;
    let reply = result.expect("an answer");
    assert_waits(reply.attempts(), &[7, 30, 1, 0], begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn retry_after_as_a_date_is_honoured() {
    let date = "date: Sun, 06 Nov 1994 08:49:37 GMT";
    let asked = |until| answer(503, &[date, &format!("retry-after: {until}")], "");
    let script = [
        asked("Sun, 06 Nov 1994 08:49:47 GMT"),
        asked("Sunday, 06-Nov-94 08:50:07 GMT"),
        asked("Sun Nov  6 08:49:38 1994"),
        // Has passed.
        asked("Sun, 06 Nov 1994 08:00:00 GMT"),
    ];
    let begun = Instant::now();
    let (_server, result) = pay(script, &POLICY).await;
    let reply = result.expect("an answer");
    assert_waits(reply.attempts(), &[10, 30, 1, 0], begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_after_the_time_budget_is_not_begun() {
    for value in [
        "121",
        "18446744073709551616",
        "Fri, 01 Jan 2100 00:00:00 GMT",
    ] {
        let begun = Instant::now();
        let retry_after = format!("retry-after: {value}");
        let (server, result) = pay([answer(503, &[&retry_after], "")], &POLICY).await;
        let error = result.expect_err("it is too long");
        assert_eq!(error.reason(), GaveUp::Time);
        assert_eq!(outcomes(error.attempts()), [Outcome::Answered(503)]);
        assert_eq!(error.key(), Some(&*server.the_one_key()));
        assert!(begun.elapsed() < Duration::from_secs(1), "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_ends_with_its_time_out() {
    let begun = Instant::now();
    let policy = POLICY.attempt_timeout(Duration::from_secs(7));
    let (_server, result) = pay([Fault::Silence, Fault::Silence], &policy).await;
    let reply = result.expect("an answer");
    for attempt in &reply.attempts()[..2] {
        assert_eq!(attempt.outcome, AttemptOutcome::TimedOut);
        assert_eq!(attempt.took.as_secs(), 7, "{attempt:?}");
    }
    assert_eq!(begun.elapsed().as_secs(), 14);
}

#[tokio::test(start_paused = true)]
async fn the_time_budget_ends_an_attempt_too() {
    let begun = Instant::now();
    let policy = POLICY.time_budget(Duration::from_secs(45));
    let (server, result) = pay(vec![Fault::Silence; 9], &policy).await;
    let error = result.expect_err("no answer");
    assert_eq!(error.reason(), GaveUp::Time);
    let timed_out = || Outcome::Unanswered(AttemptOutcome::TimedOut);
    assert_eq!(outcomes(error.attempts()), [timed_out(), timed_out()]);
    assert_eq!(error.attempts()[0].took.as_secs(), 30);
    assert_eq!(begun.elapsed().as_secs(), 45);
    assert_eq!(server.the_one_key(), error.key().expect("a key"));
}
