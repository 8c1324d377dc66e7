//! The attempts at an operation.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::attempt::{Attempt, AttemptOutcome};
use super::backoff;
use super::decision::{Decision, Facts, Progress, decide, may_repeat};
use super::error::{GaveUp, Last, SendError};
use super::operation::Operation;
use super::policy::RetryPolicy;
use super::reply::Reply;
use super::response::Received;

impl Operation {
    /// Sends the request until the server has decided, or the policy's budgets are used up.
    ///
    /// What is retried is in the [module's documentation](super). Waits use `tokio::time`.
    ///
    /// # Errors
    ///
    /// [`SendError`] with the key and the attempts, when the last attempt got no answer or one that
    /// time may heal, and there was no further attempt:
    ///
    /// - [`GaveUp::Attempts`](super::GaveUp::Attempts) and [`GaveUp::Time`](super::GaveUp::Time)
    ///   when a budget is used up.
    /// - [`GaveUp::NoKey`](super::GaveUp::NoKey) after one attempt, when the method is not safe and
    ///   there is no key.
    /// - [`GaveUp::Permanent`](super::GaveUp::Permanent) when the request cannot be sent, or its
    ///   redirects not be followed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the attempt that is under way, and the server may still do the
    /// work. The operation can be sent again: it has the same key.
    pub async fn send(&self, policy: &RetryPolicy) -> Result<Reply, SendError> {
        let begun = Instant::now();
        let may_repeat = may_repeat(self.request.method(), self.key.is_some());
        let mut attempts = Vec::new();
        let mut waited = Duration::ZERO;
        loop {
            let started = Instant::now();
            let left = policy.time_budget.saturating_sub(begun.elapsed());
            let limit = policy.attempt_timeout.min(left);
            let (facts, last) = self.attempt(policy, limit).await;
            attempts.push(Attempt {
                waited,
                took: started.elapsed(),
                outcome: facts.outcome,
            });

            let progress = Progress {
                attempts: u32::try_from(attempts.len()).unwrap_or(u32::MAX),
                elapsed: begun.elapsed(),
            };
            let decision = decide(policy, may_repeat, &facts, progress, backoff::random());
            let (reason, last) = match (decision, last) {
                (Decision::Retry { wait }, _) => {
                    tracing::debug!(attempt = progress.attempts, outcome = ?facts.outcome, ?wait, "operation is retried");
                    sleep(wait).await;
                    waited = wait;
                    continue;
                }
                (Decision::Deliver, Last::Response(response)) => {
                    return Ok(Reply::new(response, self.key.clone(), attempts));
                }
                (Decision::GiveUp(reason), last) => (reason, last),
                // Only answers are delivered.
                (Decision::Deliver, last) => (GaveUp::Permanent, last),
            };
            tracing::warn!(attempt = progress.attempts, outcome = ?facts.outcome, ?reason, "operation was given up");
            return Err(SendError::new(reason, self.key.clone(), attempts, last));
        }
    }

    async fn attempt(&self, policy: &RetryPolicy, limit: Duration) -> (Facts, Last) {
        let Some(request) = self.request.try_clone() else {
            // Bodies that cannot be cloned were refused when the operation was made.
            return (Facts::unanswered(AttemptOutcome::Failed), Last::Nothing);
        };
        let answer = async {
            let response = self.http.execute(request).await?;
            Received::read(response, policy).await
        };
        match timeout(limit, answer).await {
            Ok(Ok(received)) => (received.facts, Last::Response(received.response)),
            Ok(Err(error)) => {
                let outcome = AttemptOutcome::of_error(&error);
                (Facts::unanswered(outcome), Last::Error(error))
            }
            Err(_) => (Facts::unanswered(AttemptOutcome::TimedOut), Last::Nothing),
        }
    }
}
