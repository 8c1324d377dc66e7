//! One attempt at a message: what the sink says, and what becomes of the row.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::settings::Settings;
use super::{Envelope, Sink, SinkError};
use crate::engine::{STORE_LIMIT, report};
use crate::error::StoreError;
use crate::handle::Idempotency;
use crate::store::outbox::{self, Claimed, MessageRow, Verdict};
use crate::store::{Backend, Limits, store_error};

/// How long the database gives a transaction of the relay.
pub(super) const LIMITS: Limits = Limits::for_ours(Duration::from_secs(15));

/// The pause before a verdict is written again, as long as the lease holds.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// How an attempt ended, as far as it concerns the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempted {
    Confirmed,
    Failed,
    Unavailable,
}

pub(super) async fn publish<S: Sink>(
    sink: &S,
    row: MessageRow,
    failures: u32,
    settings: &Settings,
) -> (Verdict, Attempted) {
    let mut envelope = match Envelope::read(row) {
        Ok(envelope) => envelope,
        Err(error) => {
            let error = causes(&error);
            return (Verdict::Bury { error }, Attempted::Failed);
        }
    };
    let id = envelope.id;
    envelope.limit = settings.attempt_limit();
    let published = match timeout(envelope.limit, sink.publish(&envelope)).await {
        Ok(published) => published,
        Err(late) => Err(SinkError::failed(late)),
    };
    let error = match published {
        Ok(()) => {
            let retention = settings.retention;
            return (Verdict::Sent { retention }, Attempted::Confirmed);
        }
        Err(error) => error,
    };
    let why = causes(&error);
    match error {
        SinkError::Unavailable(_) => {
            tracing::warn!(error = why, "the sink does not answer; the relay pauses");
            (Verdict::GiveBack, Attempted::Unavailable)
        }
        SinkError::Failed(_) if failures + 1 < settings.max_attempts => {
            tracing::info!(%id, attempt = envelope.attempt, error = why, "a message waits for its next attempt");
            let pause = settings.pause(failures + 1);
            (Verdict::Failed { error: why, pause }, Attempted::Failed)
        }
        SinkError::Failed(_) | SinkError::Refused(_) => {
            tracing::error!(%id, attempt = envelope.attempt, error = why, "a message is a dead letter");
            (Verdict::Bury { error: why }, Attempted::Failed)
        }
    }
}

/// Writes the verdict while the row is ours; afterwards another relay begins anew.
pub(super) async fn settle<DB: Backend>(
    handle: &Idempotency<DB>,
    claimed: Claimed,
    verdict: &Verdict,
    until: Instant,
) {
    let mut asked = false;
    loop {
        let once = settle_once(handle.clone(), claimed, verdict.clone());
        match handle.in_time(STORE_LIMIT, once).await {
            // An earlier try may have come through without an answer.
            Ok(settled) if settled || asked => return,
            Ok(_) => {
                tracing::warn!("a message was settled by another relay; it may be sent twice");
                return;
            }
            Err(error) => {
                report(&error);
                asked = true;
                if Instant::now() + SETTLE_PAUSE > until {
                    return;
                }
                sleep(SETTLE_PAUSE).await;
            }
        }
    }
}

async fn settle_once<DB: Backend>(
    handle: Idempotency<DB>,
    claimed: Claimed,
    verdict: Verdict,
) -> Result<bool, StoreError> {
    let mut writing = handle.begin(LIMITS).await?;
    let sql = &handle.statements().outbox;
    match outbox::settle::<DB>(&mut writing.tx, sql, claimed, &verdict).await {
        Ok(settled) => writing.commit().await.map(|()| settled),
        Err(error) => {
            writing.give_back().await;
            Err(store_error::<DB>(error))
        }
    }
}

/// An error with its causes, cut to what an operator reads.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text.chars().filter(|c| *c != '\0').take(500).collect()
}
