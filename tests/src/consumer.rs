//! A consumer of messages on either database, which writes an effect for each.

use idem_runtime::{OnceError, Outcome, idempotent};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, SqliteConnection};

use crate::app::Handle;
use crate::gate::Gate;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paid {
    /// The message's own.
    pub id: String,
    /// Whose effect it is.
    pub account: String,
    /// What the effect is called.
    pub label: String,
}

/// What the consumer does after its write, as the test says.
#[derive(Clone, Debug, Default)]
pub struct Conduct {
    /// Where it stands before it returns.
    pub gate: Gate,
    /// How often it fails from now on.
    pub failures: Arc<AtomicUsize>,
    runs: Arc<AtomicUsize>,
}

impl Conduct {
    async fn end(&self) -> Result<usize, NotConsumed> {
        self.gate.pass().await;
        let left = |failures: usize| failures.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.failures.fetch_update(set, get, left).is_ok() {
            return Err(NotConsumed);
        }
        Ok(self.runs.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// Why a message is not consumed.
#[derive(Debug)]
pub struct NotConsumed;

impl From<sqlx::Error> for NotConsumed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

/// What a delivery comes to: how often the consumer ran in this process.
pub type Consumed = Result<Outcome<usize>, OnceError<NotConsumed>>;

const INSERT: &str = "insert into effects (account, label) values ($1, $2)";

#[idempotent(message, scope = "test.paid", tenant = "paid", key = event.id, ttl = "14d")]
async fn on_paid_postgres(
    conduct: Conduct,
    tx: &mut PgConnection,
    event: Paid,
) -> Result<usize, NotConsumed> {
    let insert = sqlx::query(INSERT).bind(event.account).bind(event.label);
    insert.execute(tx).await?;
    conduct.end().await
}

#[idempotent(message, scope = "test.paid", tenant = "paid", key = event.id, ttl = "14d")]
async fn on_paid_sqlite(
    conduct: Conduct,
    tx: &mut SqliteConnection,
    event: Paid,
) -> Result<usize, NotConsumed> {
    let insert = sqlx::query(INSERT).bind(event.account).bind(event.label);
    insert.execute(tx).await?;
    conduct.end().await
}

/// Delivers a message once.
///
/// # Errors
/// Those of the generated function.
pub async fn deliver(handle: &Handle, conduct: &Conduct, event: Paid) -> Consumed {
    match handle {
        Handle::Postgres(handle) => on_paid_postgres(handle, conduct.clone(), event).await,
        Handle::Sqlite(handle) => on_paid_sqlite(handle, conduct.clone(), event).await,
    }
}
