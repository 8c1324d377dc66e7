//! The handle: a pool, the tables in it, and what this process has in flight.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::pool::PoolConnection;
use sqlx::{Pool, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::atomic::{Ended, give_back, undo};
use crate::builder::{Builder, Settings, StoreKeys};
use crate::claim::Identity;
use crate::error::{StoreError, StoreErrorKind};
use crate::in_flight::InFlight;
use crate::outbox::Wakes;
use crate::policy::Policy;
use crate::recent::Recent;
use crate::record::Kept;
use crate::seal;
use crate::store::{Backend, KeyColumns, Limits, ResponseColumns, Statements, store_error};

/// Claims keys, runs work once for each, and replays what is stored.
///
/// A handle is cheap to clone; clones share the pool, the keys in flight, and the drain. Make one
/// for each database and put it into the router's state.
pub struct Idempotency<DB: Backend>(Arc<Inner<DB>>);

struct Inner<DB: Backend> {
    pool: Pool<DB>,
    statements: Statements,
    settings: Settings,
    in_flight: InFlight,
    recent: Recent,
    tasks: TaskTracker,
    writer: Arc<Semaphore>,
    wakes: Wakes,
}

/// How long a request waits for a connection, and then for its turn to write, before the store
/// counts as down. The pool's own `acquire_timeout` holds where it is shorter.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(5);

impl<DB: Backend> Idempotency<DB> {
    /// Makes a handle with the default settings.
    ///
    /// The handler's transaction runs on a connection of this pool. A SQLite database in memory
    /// lives as long as one of its connections: let the pool keep one open.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> Self {
        Self::with_settings(pool, Settings::default())
    }

    /// Makes a handle with other settings than the defaults.
    pub fn builder(pool: Pool<DB>) -> Builder<DB> {
        Builder::new(pool)
    }

    pub(crate) fn with_settings(pool: Pool<DB>, settings: Settings) -> Self {
        Self(Arc::new(Inner {
            pool,
            statements: DB::statements(&settings.tables),
            settings,
            in_flight: InFlight::default(),
            recent: Recent::default(),
            tasks: TaskTracker::new(),
            writer: Arc::new(Semaphore::new(1)),
            wakes: Wakes::default(),
        }))
    }

    /// Creates or updates the library's own tables; does nothing where they are in place.
    ///
    /// Several processes may migrate at once. On SQLite it also turns on the write-ahead log. On
    /// PostgreSQL a user who may not create tables can use those that another one has made.
    ///
    /// # Errors
    /// [`StoreErrorKind::Misconfigured`] when the tables exist in another shape (a column, or the unique
    /// constraint on a key, is not there), or are missing and the database user may not create them; [`StoreErrorKind::Unavailable`] when the database does
    /// not answer.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let handle = self.clone();
        self.detached(async move {
            let _turn = handle.turn_to_write().await?;
            DB::migrate(handle.pool(), handle.statements())
                .await
                .map_err(store_error::<DB>)
        })
        .await
    }

    /// Returns the SQL that [`migrate`](Self::migrate) runs, for those who run it themselves.
    #[must_use]
    pub fn migration_sql(&self) -> String {
        self.0.statements.migrate.as_str().to_owned()
    }

    /// Stops claiming and waits until everything that runs is done, or `limit` has passed.
    /// Requests from now on get 503 with `Retry-After`.
    ///
    /// Call it after the server has shut down: handlers whose clients have left still run.
    /// Returns whether everything is done.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.0.tasks.close();
        timeout(limit, self.0.tasks.wait()).await.is_ok()
    }

    pub(crate) fn pool(&self) -> &Pool<DB> {
        &self.0.pool
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.0.statements
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    pub(crate) fn recent(&self) -> &Recent {
        &self.0.recent
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(crate) fn wakes(&self) -> &Wakes {
        &self.0.wakes
    }

    /// The attribute's policy under this handle's overrides.
    pub(crate) fn effective(&self, policy: Policy) -> Policy {
        match self.0.settings.overrides.get(policy.scope) {
            Some(overrides) => overrides.apply(policy),
            None => policy,
        }
    }

    /// Runs a future to its end, whatever becomes of the caller: sqlx 0.9.0 gives a connection
    /// back with its transaction open when `begin` is dropped half way.
    pub(crate) fn detached<T, F>(&self, work: F) -> impl Future<Output = Result<T, StoreError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let task = self.tasks().spawn(work.in_current_span());
        async move {
            if let Ok(result) = task.await {
                return result;
            }
            // The runtime is going down.
            let gone = sqlx::Error::WorkerCrashed;
            Err(StoreError::new(StoreErrorKind::Unavailable, gone))
        }
    }

    pub(crate) async fn acquire(&self) -> Result<PoolConnection<DB>, StoreError> {
        match timeout(ACQUIRE_LIMIT, self.0.pool.acquire()).await {
            Ok(acquired) => acquired.map_err(store_error::<DB>),
            Err(_) => Err(StoreError::new(
                StoreErrorKind::Unavailable,
                sqlx::Error::PoolTimedOut,
            )),
        }
    }

    /// Waits in memory for the turn to write, instead of on a connection; nothing to wait for where
    /// there may be many writers.
    pub(crate) async fn turn_to_write(&self) -> Result<Option<OwnedSemaphorePermit>, StoreError> {
        if !DB::SINGLE_WRITER {
            return Ok(None);
        }
        match timeout(ACQUIRE_LIMIT, Arc::clone(&self.0.writer).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            Ok(Err(_)) | Err(_) => Err(StoreError::new(
                StoreErrorKind::Aborted,
                sqlx::Error::PoolTimedOut,
            )),
        }
    }

    /// The turn to write, if nobody has it or waits for it.
    pub(crate) fn turn_now(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.writer).try_acquire_owned().ok()
    }

    /// Begins a transaction without a claim.
    pub(crate) async fn begin(&self, limits: Limits) -> Result<Writing<DB>, StoreError> {
        let turn = self.turn_to_write().await?;
        let conn = self.acquire().await?;
        let tx = DB::open_unclaimed(conn, limits)
            .await
            .map_err(store_error::<DB>)?;
        Ok(Writing { tx, _turn: turn })
    }

    /// The columns of a key.
    pub(crate) fn columns(&self, identity: &Identity) -> KeyColumns {
        let key = match self.0.settings.store_keys {
            StoreKeys::Raw => identity.key.as_str().to_owned(),
            StoreKeys::Digest => hex(&Sha256::digest(identity.to_bytes())),
        };
        let tenant = identity.tenant.as_str().to_owned();
        #[cfg(idem_seeded_bugs)]
        let tenant = if crate::seeded::bug("tenant_left_out") {
            String::new()
        } else {
            tenant
        };
        KeyColumns {
            tenant,
            scope: identity.scope.clone(),
            key,
        }
    }

    pub(crate) fn seal(
        &self,
        identity: &Identity,
        kept: &Kept,
    ) -> Result<ResponseColumns, StoreError> {
        seal::to_columns(self.0.settings.seal.as_deref(), identity, kept)
            .map_err(|error| unreadable(sqlx::Error::Encode(Box::new(error))))
    }

    /// Seals the result of a step.
    pub(crate) fn seal_step(
        &self,
        identity: &Identity,
        name: &str,
        result: Vec<u8>,
    ) -> Result<Vec<u8>, StoreError> {
        let column = format!("step {name}");
        seal::close(self.0.settings.seal.as_deref(), identity, &column, result)
            .map_err(|error| unreadable(sqlx::Error::Encode(Box::new(error))))
    }

    /// The reverse of [`seal_step`](Self::seal_step).
    pub(crate) fn unseal_step(
        &self,
        identity: &Identity,
        name: &str,
        result: Vec<u8>,
    ) -> Result<Vec<u8>, StoreError> {
        let column = format!("step {name}");
        seal::open(self.0.settings.seal.as_deref(), identity, &column, result)
            .map_err(|error| unreadable(sqlx::Error::Decode(Box::new(error))))
    }

    pub(crate) fn unseal(
        &self,
        identity: &Identity,
        columns: ResponseColumns,
    ) -> Result<Kept, StoreError> {
        seal::from_columns(self.0.settings.seal.as_deref(), identity, columns)
            .map_err(|error| unreadable(sqlx::Error::Decode(Box::new(error))))
    }
}

/// A transaction of ours, and on a database with one writer the turn to write.
#[derive(Debug)]
pub(crate) struct Writing<DB: Backend> {
    pub(crate) tx: Transaction<'static, DB>,
    _turn: Option<OwnedSemaphorePermit>,
}

impl<DB: Backend> Writing<DB> {
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await.map_err(store_error::<DB>)
    }

    pub(crate) async fn give_back(self) {
        give_back(self.tx).await;
    }

    pub(crate) async fn undo(self) -> Result<(), Ended> {
        undo(self.tx).await
    }
}

fn unreadable(error: sqlx::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unreadable, error)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |hex, byte| {
        hex + &format!("{byte:02x}")
    })
}

impl<DB: Backend> Clone for Idempotency<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<DB: Backend> fmt::Debug for Idempotency<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("database", &DB::NAME)
            .field("in_flight", &self.0.in_flight.len())
            .finish_non_exhaustive()
    }
}
