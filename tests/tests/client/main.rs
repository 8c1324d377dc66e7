//! The retrying client, against servers that fail, over real sockets.

mod bodies;
mod failures;
mod keys;
mod payments;
mod server;
mod waits;

use std::time::Duration;

use idem_runtime::client::{AttemptOutcome, Operation, Reply, RetryPolicy, SendError};

use crate::server::{Fault, FaultyServer};

/// Waits next to nothing.
const QUICK: RetryPolicy = RetryPolicy::new()
    .base_delay(Duration::from_millis(1))
    .max_delay(Duration::from_millis(4));

const BODY: &str = r#"{"amount": 500}"#;

/// A POST under a new key.
fn payment(server: &FaultyServer) -> Operation {
    let request = reqwest::Client::new().post(server.url()).body(BODY);
    Operation::new(request).expect("an operation")
}

/// What becomes of a payment at a server that does this, once for each connection.
async fn pay(
    script: impl IntoIterator<Item = Fault>,
    policy: &RetryPolicy,
) -> (FaultyServer, Result<Reply, SendError>) {
    let server = FaultyServer::start(script).await;
    let result = payment(&server).send(policy).await;
    (server, result)
}

/// The outcomes of the attempts, with statuses as numbers.
fn outcomes(attempts: &[idem_runtime::client::Attempt]) -> Vec<Outcome> {
    let outcomes = attempts.iter().map(|attempt| match attempt.outcome {
        AttemptOutcome::Answered(status) => Outcome::Answered(status.as_u16()),
        other => Outcome::Unanswered(other),
    });
    outcomes.collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Answered(u16),
    Unanswered(AttemptOutcome),
}
