//! A run without a key: in a transaction all the same, but nothing is claimed or stored.

use crate::atomic::{Ended, Work, run, say_ended};
use crate::claim::Claim;
use crate::engine::{Answer, Done, Job, STORE_LIMIT, report};
use crate::error::Refusal;
use crate::handle::{Idempotency, Writing};
use crate::observe;
use crate::record::Disposition;
use crate::store::{AtSavepoint, Backend, Limits, store_error};
use futures_util::FutureExt;
use tracing::Instrument;

impl<DB: Backend> Idempotency<DB> {
    /// Runs the work without protection against repeats.
    pub(crate) async fn execute_unclaimed<W: Work<DB>>(
        &self,
        job: Job,
        work: W,
    ) -> Answer<W::Value> {
        let token = self.tasks().token();
        if self.tasks().is_closed() {
            return Answer::Refused(Refusal::ShuttingDown);
        }
        let scope = job.policy.scope;
        let attempt = self.clone().attempt_unclaimed(job, work).boxed();
        let attempt = self.clone().waking(attempt);
        let task = self.tasks().spawn(attempt.in_current_span());
        drop(token);
        let answer = match task.await {
            Ok(answer) => answer,
            Err(_) => Answer::Refused(Refusal::OutcomeUnknown),
        };
        observe::count(scope, observe::outcome(&answer));
        answer
    }

    async fn attempt_unclaimed<W: Work<DB>>(self, job: Job, work: W) -> Answer<W::Value> {
        let limits = Limits::for_work(job.policy.timeout);
        let beginning = {
            let handle = self.clone();
            async move { handle.begin(limits).await }
        };
        let mut writing = match self.in_time(STORE_LIMIT, beginning).await {
            Ok(writing) => writing,
            Err(error) => return Answer::Refused(report(&error)),
        };
        let claim = Claim::new(job.identity, 1);
        let Done {
            value, disposition, ..
        } = match run(work, &mut writing.tx, &claim, job.policy.timeout).await {
            Ok(done) => done,
            Err(refusal) => {
                let undone = writing.undo().await;
                return Answer::Refused(undone.map_or(Refusal::EndedByHandler, |()| refusal));
            }
        };
        if disposition != Disposition::KeepWithWrites {
            return match writing.undo().await {
                Ok(()) => Answer::Executed(value),
                Err(Ended) => Answer::Refused(Refusal::EndedByHandler),
            };
        }
        match self.within(STORE_LIMIT, finish(writing)).await {
            Some(Ok(())) => Answer::Executed(value),
            Some(Err(refusal)) => Answer::Refused(refusal),
            None => Answer::Refused(Refusal::OutcomeUnknown),
        }
    }
}

/// Commits a transaction that is whole.
async fn finish<DB: Backend>(mut writing: Writing<DB>) -> Result<(), Refusal> {
    // A commit reports success on an aborted transaction; this statement does not.
    match DB::keep_work(&mut writing.tx).await {
        Ok(AtSavepoint::Done) => {}
        Ok(AtSavepoint::Ended) => {
            say_ended();
            writing.give_back().await;
            return Err(Refusal::EndedByHandler);
        }
        Err(error) => {
            writing.give_back().await;
            return Err(report(&store_error::<DB>(error)));
        }
    }
    writing
        .commit()
        .await
        .map_err(|error| match report(&error) {
            Refusal::Aborted => Refusal::Aborted,
            _ => Refusal::OutcomeUnknown,
        })
}
