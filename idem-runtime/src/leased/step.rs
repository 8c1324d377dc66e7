//! The handler's side of a lease: steps that run once for their key.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::owner::{Fenced, Owner, WORK_LIMIT};
use crate::atomic::Ended;
use crate::claim::Claim;
use crate::engine::report;
use crate::error::StoreError;
use crate::recordable::Recordable;
use crate::store::Backend;
use crate::store::lease::StepRow;

/// A claim that its owner holds for a while and renews, for handlers whose effect is outside the
/// database.
///
/// A handler asks for it with a `lease: &Lease<Postgres>` parameter. It dereferences to the
/// [`Claim`], whose [`derive_key`](Claim::derive_key) makes the key for the other side.
///
/// # Examples
///
/// ```
/// # #[cfg(all(feature = "macros", feature = "postgres"))] {
/// # use axum::{extract::{FromRef, Path, State}, http::StatusCode};
/// # use idem_runtime::{Idempotency, Lease, idempotent};
/// # use sqlx::{PgConnection, Postgres};
/// # #[derive(Clone)]
/// # struct App { idempotency: Idempotency<Postgres>, provider: Provider }
/// # impl FromRef<App> for Idempotency<Postgres> {
/// #     fn from_ref(app: &App) -> Self { app.idempotency.clone() }
/// # }
/// # #[derive(Clone)]
/// # struct Provider;
/// # impl Provider {
/// #     async fn charge(&self, _: String, _: i64) -> Result<String, std::io::Error> { Ok(String::new()) }
/// # }
/// # fn failed(_: impl std::error::Error) -> StatusCode { StatusCode::BAD_GATEWAY }
/// #[idempotent(scope = "payments.capture", tenant = shared, lease = "30s")]
/// async fn capture(
///     State(app): State<App>,
///     Path(payment): Path<i64>,
///     lease: &Lease<Postgres>,
/// ) -> Result<StatusCode, StatusCode> {
///     let key = lease.derive_key("charge").to_string(); // the provider's idempotency key
///     let charge = lease
///         .step("charge", async || app.provider.charge(key, payment).await)
///         .await
///         .map_err(failed)?; // a 5xx is not kept: the next attempt goes on from here
///     lease
///         .transaction("settle", async |tx: &mut PgConnection| {
///             let update = sqlx::query("update payments set charge = $2 where id = $1");
///             update.bind(payment).bind(charge).execute(tx).await.map(drop)
///         })
///         .await
///         .map_err(failed)?;
///     Ok(StatusCode::OK)
/// }
/// # let _: axum::Router<App> = axum::Router::new().route("/", axum::routing::post(capture));
/// # }
/// ```
#[derive(Debug)]
pub struct Lease<DB: Backend> {
    owner: Arc<Owner<DB>>,
    claim: Claim,
    /// What earlier attempts have finished.
    recorded: HashMap<String, Vec<u8>>,
    used: Mutex<HashSet<String>>,
}

impl<DB: Backend> Deref for Lease<DB> {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

/// Why a step has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError<E> {
    /// The step's own work failed; nothing is recorded, and the next attempt runs it again, or
    /// parks the key under `on_takeover = "reconcile"` if it is no transaction.
    #[error("the step failed")]
    Work(#[source] E),
    /// Another attempt may own the key by now; whatever this one answers is not sent.
    #[error("the lease is lost; another attempt may own the key")]
    LeaseLost,
    /// The name was used before in this run.
    #[error("the step name `{0}` is used twice in one run; each step needs a name of its own")]
    NameUsedTwice(String),
    /// The recorded result is not of this type any more, as after a deployment. Nothing ran, and
    /// the key waits for an operator.
    #[error("the recorded result of step `{name}` cannot be deserialised; the key is parked")]
    Unreadable {
        /// The step's name.
        name: String,
        /// What the deserialiser said.
        #[source]
        source: serde_json::Error,
    },
    /// The result does not serialise to JSON, so it is not recorded.
    #[error("the result of the step cannot be serialised")]
    Serialize(#[source] serde_json::Error),
    /// The work of a [`transaction`](Lease::transaction) took more than a minute.
    #[error("the transaction of the step took more than a minute")]
    TimedOut,
    /// The transaction was over before the record: the step ended it, or went on after an error with
    /// which SQLite or sqlx had rolled it back. Its writes may stand without a record.
    #[error(
        "the transaction that would have recorded the step is over: the step ended it, or went on \
         after an error with which the database or sqlx had rolled it back"
    )]
    EndedByWork,
    /// The database failed; whether the step is recorded is known on the next attempt.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<DB: Backend> Lease<DB> {
    pub(super) fn new(owner: Arc<Owner<DB>>, claim: Claim, steps: Vec<StepRow>) -> Self {
        let finished = steps
            .into_iter()
            .filter_map(|step| Some((step.name, step.result?)));
        Self {
            owner,
            claim,
            recorded: finished.collect(),
            used: Mutex::default(),
        }
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.owner.lost
    }

    /// Runs a step once for the key: records its result, and returns the recorded result instead
    /// of running when a later attempt comes here again.
    ///
    /// The work is anything outside the database, such as a charge at a provider under the key
    /// `lease.derive_key(name)`. When the process dies while it runs, or the lease is lost, it may
    /// have happened and may happen again, always under that key; `on_takeover` says what the next
    /// attempt does. Only an `Ok` is recorded: return a refusal that is final (a declined card) as a
    /// value. An `Err` leaves the step begun and not finished: the next attempt runs it again, and
    /// under `on_takeover = "reconcile"` it parks the key instead, since a call that failed may
    /// have arrived. Step names must not depend on the attempt.
    ///
    /// # Errors
    /// [`StepError`]; [`StepError::Work`] is the work's own.
    ///
    /// # Cancel safety
    /// A step that is dropped counts as begun and not finished.
    pub async fn step<T, E, F>(&self, name: &str, work: F) -> Result<T, StepError<E>>
    where
        T: Recordable,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        if let Some(recorded) = self.enter(name).await? {
            return Ok(recorded);
        }
        let (owner, step) = (Arc::clone(&self.owner), name.to_owned());
        let begun = async move { owner.begin_step(step).await };
        passed(self.detached(begun).await?)?;
        let value = work().await.map_err(StepError::Work)?;
        let result = serde_json::to_vec(&value).map_err(StepError::Serialize)?;
        let (owner, step) = (Arc::clone(&self.owner), name.to_owned());
        let ended = async move { owner.end_step(step, result).await };
        passed(self.detached(ended).await?)?;
        Ok(value)
    }

    /// Runs a step whose writes and whose record commit together: either both are there or none.
    ///
    /// The work may take a minute: it holds a connection, and what it has locked.
    ///
    /// # Errors
    /// [`StepError`]; after any of them but [`StepError::EndedByWork`] the writes are rolled back.
    ///
    /// # Cancel safety
    /// Dropping it before the work is done rolls back.
    pub async fn transaction<T, E, F>(&self, name: &str, work: F) -> Result<T, StepError<E>>
    where
        T: Recordable,
        F: AsyncFnOnce(&mut DB::Connection) -> Result<T, E>,
    {
        if let Some(recorded) = self.enter(name).await? {
            return Ok(recorded);
        }
        let owner = Arc::clone(&self.owner);
        let begun = async move { owner.begin_work().await };
        let mut writing = self.detached(begun).await?;
        let done = match timeout(WORK_LIMIT, work(&mut writing.tx)).await {
            Ok(Ok(value)) => match serde_json::to_vec(&value) {
                Ok(result) => Ok((value, result)),
                Err(error) => Err(StepError::Serialize(error)),
            },
            Ok(Err(error)) => Err(StepError::Work(error)),
            Err(_) => Err(StepError::TimedOut),
        };
        let (value, result) = match done {
            Ok(done) => done,
            Err(error) => {
                let back = async move { Ok(writing.undo().await) };
                return Err(match self.detached(back).await? {
                    Ok(()) => error,
                    Err(Ended) => StepError::EndedByWork,
                });
            }
        };
        let (owner, step) = (Arc::clone(&self.owner), name.to_owned());
        let ended = async move { owner.end_transaction(writing, &step, result).await };
        passed(self.detached(ended).await?)?;
        self.owner.handle.wake_relays();
        Ok(value)
    }

    /// Runs an operation of the owner to its end, whatever becomes of the step.
    async fn detached<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.owner.handle.detached_in_time(operation).await
    }

    /// Takes a step's name for this run, and returns what an earlier attempt has recorded.
    async fn enter<T, E>(&self, name: &str) -> Result<Option<T>, StepError<E>>
    where
        T: DeserializeOwned,
    {
        let new = self
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned());
        if !new {
            return Err(StepError::NameUsedTwice(name.to_owned()));
        }
        if self.owner.lost.is_cancelled() {
            return Err(StepError::LeaseLost);
        }
        let Some(sealed) = self.recorded.get(name) else {
            return Ok(None);
        };
        let owner = &self.owner;
        let result = owner
            .handle
            .unseal_step(&owner.identity, name, sealed.clone())?;
        match serde_json::from_slice(&result) {
            Ok(value) => Ok(Some(value)),
            Err(source) => {
                tracing::error!(
                    step = name,
                    "the recorded result cannot be deserialised; the key is parked for an operator"
                );
                let parking = Arc::clone(owner);
                if let Err(error) = self.detached(async move { parking.park().await }).await {
                    report(&error);
                }
                // Parked or not: this run must not go past a step that it cannot read.
                owner.lost.cancel();
                Err(StepError::Unreadable {
                    name: name.to_owned(),
                    source,
                })
            }
        }
    }
}

fn passed<E>(fenced: Fenced) -> Result<(), StepError<E>> {
    match fenced {
        Fenced::Done => Ok(()),
        Fenced::LeaseLost => Err(StepError::LeaseLost),
        Fenced::Ended => Err(StepError::EndedByWork),
    }
}
