//! What the engine asks of a database, and what is the same for all of them.
//!
//! A backend is one module that implements [`Store`] and one folder of migrations. Nothing here
//! knows HTTP beyond a status, header bytes, and body bytes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Database, Pool, SqlSafeStr, SqlStr, Transaction};

use crate::error::{StoreError, StoreErrorKind};
use crate::fingerprint::Fingerprint;
use lease::{Bind, LeaseStatements, StepRow};
use outbox::{MessageRow, OutboxStatements};
pub(crate) use row::{Completion, KeyColumns, ResponseColumns, StoredRow};

pub(crate) mod lease;
pub(crate) mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;

/// A database that can hold idempotency keys beside the handler's own writes.
///
/// Implemented for [`sqlx::Postgres`] with the feature `postgres` and for [`sqlx::Sqlite`] with
/// the feature `sqlite`. Sealed: the guarantees rest on how each database locks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database that holds idempotency keys",
    label = "expected `sqlx::Postgres` or `sqlx::Sqlite`",
    note = "the features `postgres` and `sqlite` of `idem-runtime` turn them on"
)]
pub trait Backend: Store {}

/// Whose the key is right now, where no row says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// This transaction owns the key until it ends.
    Ours,
    /// The same request is in flight in another process.
    SameRequest,
    /// Another request is in flight with this key.
    OtherRequest,
}

/// A transaction that has asked for a key.
#[derive(Debug)]
pub struct Opened<DB: Database> {
    pub(crate) tx: Transaction<'static, DB>,
    pub(crate) gate: Gate,
    pub(crate) found: Option<StoredRow>,
}

/// The outcome of storing a finished key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Exactly one row is in place.
    InPlace,
    /// Another row already holds the key.
    Taken,
    /// The handler ended the transaction that held the claim.
    Ended,
}

/// What one transaction may take of the server's time, before the server gives it up by itself: a
/// host that vanished must not hold a key.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    statement: Duration,
    idle: Duration,
}

/// The engine ends a run after its time-out; the server must not be quicker.
const IDLE_MARGIN: Duration = Duration::from_secs(5);

impl Limits {
    /// For a transaction in which a user's work runs.
    pub(crate) fn for_work(timeout: Duration) -> Self {
        Self {
            statement: timeout,
            idle: timeout + IDLE_MARGIN,
        }
    }

    /// For a transaction of ours alone, which pauses for no one.
    pub(crate) const fn for_ours(limit: Duration) -> Self {
        Self {
            statement: limit,
            idle: limit,
        }
    }
}

/// The statements of one handle, with its table names in place.
#[derive(Clone, Debug)]
pub struct Statements {
    /// The name of the keys' table.
    pub(crate) keys: Arc<str>,
    pub(crate) migrate: SqlStr,
    pub(crate) check: SqlStr,
    uniques: [SqlStr; 2],
    /// Looks a key up in the transaction that asks for it.
    pub(crate) open: SqlStr,
    pub(crate) find: SqlStr,
    /// Stores a key, also in the place of an expired row.
    pub(crate) store: SqlStr,
    /// Stores a key that has no row.
    pub(crate) store_new: SqlStr,
    /// Removes a batch; its last statement removes the keys.
    pub(crate) sweep: Box<[SqlStr]>,
    pub(crate) lease: LeaseStatements,
    pub(crate) outbox: OutboxStatements,
}

impl Statements {
    /// Those that find a table of another shape.
    fn checks(&self) -> [&SqlStr; 5] {
        let [key, step] = &self.uniques;
        [
            &self.check,
            &self.lease.check,
            &self.outbox.check,
            key,
            step,
        ]
    }
}

/// The names of the library's tables.
#[derive(Clone, Debug)]
pub struct Tables {
    pub(crate) keys: Arc<str>,
    pub(crate) steps: Arc<str>,
    pub(crate) outbox: Arc<str>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            keys: "idempotency_keys".into(),
            steps: "idempotency_steps".into(),
            outbox: "outbox".into(),
        }
    }
}

impl Tables {
    /// Puts the table names into a statement. The builder has checked that each is an
    /// identifier, and the rest of the statement is a constant.
    fn put_into(&self, statement: &str) -> SqlStr {
        let statement: Arc<str> = statement
            .replace("{keys}", &self.keys)
            .replace("{steps}", &self.steps)
            .replace("{outbox}", &self.outbox)
            .into();
        AssertSqlSafe(statement).into_sql_str()
    }

    /// Inserts of nothing that fail where a table lacks its unique constraint, the last fence.
    fn uniques(&self) -> [SqlStr; 2] {
        [
            ("{keys}", "tenant, scope, key"),
            ("{steps}", "tenant, scope, key, name"),
        ]
        .map(|(table, columns)| {
            self.put_into(&format!(
                "insert into {table} ({columns}) select {columns} from {table} where 1 = 0 \
                 on conflict ({columns}) do nothing"
            ))
        })
    }

    /// Puts a dialect's words and the table names into a template.
    fn say(&self, template: &str, words: &[(&str, &str)]) -> SqlStr {
        let say = |text: String, (word, said): &(&str, &str)| text.replace(word, said);
        self.put_into(&words.iter().fold(template.to_owned(), say))
    }
}

/// What each backend does in its own dialect.
pub trait Store: Database {
    /// Whether writers exclude each other, so that waiting for one's turn is better done in
    /// memory than on a connection.
    const SINGLE_WRITER: bool;

    /// The statements for these tables.
    fn statements(tables: &Tables) -> Statements;

    /// Creates or updates the tables; does nothing where they are in place.
    fn migrate(
        pool: &Pool<Self>,
        statements: &Statements,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Begins the transaction, claims the key in it, sets the savepoint to which a rejected
    /// handler's writes are undone, and looks the key up: in this order, so that what an
    /// earlier owner committed is seen.
    fn open(
        conn: PoolConnection<Self>,
        statements: &Statements,
        key: &KeyColumns,
        fingerprint: &Fingerprint,
        limits: Limits,
    ) -> impl Future<Output = Result<Opened<Self>, sqlx::Error>> + Send;

    /// Begins a transaction without a claim.
    fn open_unclaimed(
        conn: PoolConnection<Self>,
        limits: Limits,
    ) -> impl Future<Output = Result<Transaction<'static, Self>, sqlx::Error>> + Send;

    /// Undoes the handler's writes and keeps the claim.
    fn undo_work(
        tx: &mut Transaction<'static, Self>,
    ) -> impl Future<Output = Result<Undone, sqlx::Error>> + Send;

    /// Makes sure that the transaction is whole: the handler neither ended it nor left it aborted.
    fn keep_work(
        tx: &mut Transaction<'static, Self>,
    ) -> impl Future<Output = Result<AtSavepoint, sqlx::Error>> + Send;

    /// Sets other limits for the rest of the transaction.
    fn limit(
        tx: &mut Transaction<'static, Self>,
        limits: Limits,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Stores the finished key as the last statement before the commit.
    fn store(
        tx: &mut Transaction<'static, Self>,
        statements: &Statements,
        completion: Completion<'_>,
    ) -> impl Future<Output = Result<Stored, sqlx::Error>> + Send;

    /// Rolls back whatever is open, so that the connection can be used again.
    fn roll_back(
        tx: Transaction<'static, Self>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Looks a key up on any connection.
    fn find(
        conn: &mut Self::Connection,
        statements: &Statements,
        key: &KeyColumns,
    ) -> impl Future<Output = Result<Option<StoredRow>, sqlx::Error>> + Send;

    /// Runs a statement and says how many rows it touched.
    fn execute(
        conn: &mut Self::Connection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Runs a statement that returns numbers, in one row at most.
    fn fetch_numbers(
        conn: &mut Self::Connection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> impl Future<Output = Result<Option<Vec<Option<i64>>>, sqlx::Error>> + Send;

    /// Runs a statement that returns the columns `name` and `result`.
    fn fetch_steps(
        conn: &mut Self::Connection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> impl Future<Output = Result<Vec<StepRow>, sqlx::Error>> + Send;

    /// Runs a statement that returns messages of the outbox.
    fn fetch_messages(
        conn: &mut Self::Connection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> impl Future<Output = Result<Vec<MessageRow>, sqlx::Error>> + Send;

    /// Tells, for as long as it is listened to, that a message may have come into the outbox
    /// whose table is named; says nothing where the database cannot tell.
    fn arrivals(pool: &Pool<Self>, outbox: &str) -> BoxStream<'static, ()>;

    /// The statements of the outbox in this dialect.
    fn outbox_statements(tables: &Tables) -> OutboxStatements;

    /// Removes up to `batch` expired keys and says how many it removed.
    fn sweep(
        pool: &Pool<Self>,
        statements: &Statements,
        batch: u32,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Sorts an error of the database by its code.
    fn classify(error: &(dyn sqlx::error::DatabaseError + 'static)) -> StoreErrorKind;
}

/// The outcome of going back to the savepoint before the handler's writes, or of letting it go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtSavepoint {
    /// Done, and the claim stands.
    Done,
    /// The handler ended the transaction that held the claim.
    Ended,
}

/// The outcome of undoing the handler's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// Done, and the claim stands.
    Done,
    /// The handler ended the transaction that held the claim.
    Ended,
    /// The transaction that held the claim was rolled back under the handler, and not by it.
    RolledBack,
}

impl Undone {
    /// Going back to the savepoint came to this; `by_itself` where a transaction that is over was
    /// not ended by the handler.
    const fn new(at: AtSavepoint, by_itself: bool) -> Self {
        match at {
            AtSavepoint::Done => Self::Done,
            AtSavepoint::Ended if by_itself => Self::RolledBack,
            AtSavepoint::Ended => Self::Ended,
        }
    }
}

/// Sorts an error; whatever does not come from a statement is the store not answering.
pub(crate) fn store_error<DB: Store>(error: sqlx::Error) -> StoreError {
    let kind = match &error {
        sqlx::Error::Database(error) => DB::classify(error.as_ref()),
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, error)
}

/// A count of milliseconds as the databases take it.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
