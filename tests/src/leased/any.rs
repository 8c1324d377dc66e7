//! A lease, whatever its database, so that a test writes its handler once.

use idem_runtime::{Claim, Lease, StepError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};

use crate::gate::Gate;

/// The handler's lease.
#[derive(Clone, Copy, Debug)]
pub enum AnyLease<'l> {
    /// On PostgreSQL.
    Postgres(&'l Lease<Postgres>),
    /// On SQLite.
    Sqlite(&'l Lease<Sqlite>),
}

/// Calls a method of the lease, whatever its database.
macro_rules! on_lease {
    ($lease:expr, $name:ident => $call:expr) => {
        match $lease {
            AnyLease::Postgres($name) => $call,
            AnyLease::Sqlite($name) => $call,
        }
    };
}

impl<'l> AnyLease<'l> {
    /// Returns the facts about the claim.
    #[must_use]
    pub fn claim(self) -> &'l Claim {
        on_lease!(self, lease => lease)
    }

    /// Runs a step.
    ///
    /// # Errors
    /// Those of [`Lease::step`].
    pub async fn step<T, E, F>(self, name: &str, work: F) -> Result<T, StepError<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        on_lease!(self, lease => lease.step(name, work).await)
    }

    /// Writes an effect in a transaction step, passes the gate, and returns the effect's id.
    ///
    /// # Errors
    /// Those of [`Lease::transaction`].
    pub async fn effect(self, name: &str, gate: &Gate) -> Result<i64, StepError<sqlx::Error>> {
        let sql = "insert into effects (account, label) values ($1, $2) returning id";
        let account = self.claim().tenant();
        on_lease!(self, lease => {
            let work = async |tx: &mut _| {
                let effect = sqlx::query_scalar(sql).bind(account).bind(name);
                let id = effect.fetch_one(&mut *tx).await?;
                gate.pass().await;
                Ok(id)
            };
            lease.transaction(name, work).await
        })
    }

    /// Runs statements in a transaction step, which a failed one ends.
    ///
    /// # Errors
    /// Those of [`Lease::transaction`].
    pub async fn statements(self, name: &str, sql: &str) -> Result<(), StepError<sqlx::Error>> {
        on_lease!(self, lease => {
            let work = async |tx: &mut _| {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await.map(drop)
            };
            lease.transaction(name, work).await
        })
    }
}
