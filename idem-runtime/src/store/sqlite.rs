//! SQLite, from version 3.42.
//!
//! There is one writer: `begin immediate` is the gate, and the clones of a handle queue for it
//! in memory. Any other writer is met by the busy time-out of the connection.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteError, SqliteRow};
use sqlx::{Connection, Pool, Row, SqlSafeStr, SqlStr, Sqlite, SqliteConnection, Transaction};
use tokio::time::{Instant, sleep};

use super::lease::{Bind, LeaseStatements, StepRow, Token};
use super::outbox::{MessageRow, OutboxStatements};
use super::row::{ResponseColumns, Times};
use super::{
    AtSavepoint, Backend, Completion, Gate, KeyColumns, Limits, Opened, Statements, Store, Stored,
    StoredRow, Tables, Undone, millis,
};
use crate::error::StoreErrorKind;
use crate::fingerprint::Fingerprint;

const MIGRATE: &str = concat!(
    include_str!("../../migrations/sqlite/0001_keys.sql"),
    "\n",
    include_str!("../../migrations/sqlite/0002_steps.sql"),
    "\n",
    include_str!("../../migrations/sqlite/0003_outbox.sql"),
);

/// Every column, so that a table of another shape is found at start.
const CHECK: &str = "\
select tenant, scope, key, fingerprint, state, attempt, locked_until, status, headers, body, \
created_at, completed_at, expires_at from {keys} limit 0";

const FIND: &str = "\
select fingerprint, state, attempt, status, headers, body, created_at as created, \
locked_until, expires_at, \
cast(unixepoch('subsec') * 1000 as integer) as now \
from {keys} where tenant = $1 and scope = $2 and key = $3";

/// Lets the savepoint of the work go and stores the key, in one trip to the connection's thread. An
/// expired row is replaced; any other is the last fence. The row that it returns is the one that it
/// wrote: the count of changed rows would be that of the handler's last statement too.
const STORE: &str = "\
release savepoint idem_work; \
insert into {keys} (tenant, scope, key, fingerprint, state, attempt, status, headers, body, \
created_at, completed_at, expires_at) \
select $1, $2, $3, $4, $5, 1, $6, $7, $8, clock.now, clock.now, clock.now + $9 \
from (select cast(unixepoch('subsec') * 1000 as integer) as now) as clock where true \
on conflict (tenant, scope, key) do update set \
fingerprint = excluded.fingerprint, state = excluded.state, attempt = excluded.attempt, \
locked_until = null, status = excluded.status, headers = excluded.headers, body = excluded.body, \
created_at = excluded.created_at, completed_at = excluded.completed_at, \
expires_at = excluded.expires_at \
where {keys}.expires_at <= cast(unixepoch('subsec') * 1000 as integer) returning 1";

/// The keys that a sweep removes: found by the index on `expires_at`, up to an instant that is the
/// same for both statements. A key that waits for an operator stays, and so does one with a live
/// lease.
macro_rules! expired {
    () => {
        "select rowid from {keys} where expires_at <= $1 and state <> 4 \
         and (locked_until is null or locked_until <= $1) order by expires_at limit $2"
    };
}

const SWEEP: &str = concat!("delete from {keys} where rowid in (", expired!(), ")");

const SWEEP_STEPS: &str = concat!(
    "delete from {steps} where (tenant, scope, key) in (\
     select tenant, scope, key from {keys} where rowid in (",
    expired!(),
    "))"
);

/// What the templates of leased mode say in this dialect.
const WORDS: &[(&str, &str)] = &[
    ("{now}", "cast(unixepoch('subsec') * 1000 as integer)"),
    ("{ms}", "1"),
    ("{created}", "created_at"),
    ("{millis(", "("),
    (")}", ")"),
    ("{instant}", "cast(unixepoch('subsec') * 1000 as integer)"),
    ("{skip locked}", ""),
    ("{in (}", "in ("),
    ("{) in}", ")"),
    ("{wake}", "1"),
];

#[diagnostic::do_not_recommend]
impl Backend for Sqlite {}

impl Store for Sqlite {
    const SINGLE_WRITER: bool = true;

    fn statements(tables: &Tables) -> Statements {
        Statements {
            keys: Arc::clone(&tables.keys),
            migrate: tables.put_into(MIGRATE),
            check: tables.put_into(CHECK),
            uniques: tables.uniques(),
            open: tables.put_into(FIND),
            find: tables.put_into(FIND),
            store: tables.put_into(STORE),
            store_new: tables.put_into(STORE),
            sweep: [tables.put_into(SWEEP_STEPS), tables.put_into(SWEEP)].into(),
            lease: LeaseStatements::new(tables, WORDS),
            outbox: Self::outbox_statements(tables),
        }
    }

    async fn migrate(pool: &Pool<Self>, statements: &Statements) -> Result<(), sqlx::Error> {
        // Readers go on beside the one writer; the mode stays with the file. A database in
        // memory keeps its own mode.
        let deadline = Instant::now() + BUSY_LIMIT;
        while let Err(error) = sqlx::raw_sql("pragma journal_mode = wal")
            .execute(pool)
            .await
        {
            // The busy time-out does not hold for this one.
            let busy = error
                .as_database_error()
                .is_some_and(|error| primary(extended(error)) == BUSY);
            if !busy || Instant::now() > deadline {
                return Err(error);
            }
            sleep(BUSY_PAUSE).await;
        }
        let mut tx = begin(pool.acquire().await?, "begin immediate").await?;
        sqlx::raw_sql(statements.migrate.clone())
            .execute(&mut *tx)
            .await?;
        for check in statements.checks() {
            sqlx::query(check.clone()).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    async fn open(
        conn: PoolConnection<Self>,
        statements: &Statements,
        key: &KeyColumns,
        _fingerprint: &Fingerprint,
        limits: Limits,
    ) -> Result<Opened<Self>, sqlx::Error> {
        let mut tx = Self::open_unclaimed(conn, limits).await?;
        let found = Self::find(&mut tx, statements, key).await?;
        Ok(Opened {
            tx,
            gate: Gate::Ours,
            found,
        })
    }

    async fn open_unclaimed(
        conn: PoolConnection<Self>,
        _limits: Limits,
    ) -> Result<Transaction<'static, Self>, sqlx::Error> {
        // `immediate`, since a read that turns into a write fails at once when another writer
        // came between, whatever the busy time-out.
        begin(conn, "begin immediate; savepoint idem_work").await
    }

    async fn undo_work(tx: &mut Transaction<'static, Self>) -> Result<Undone, sqlx::Error> {
        // Before a statement of ours takes its place. The error of the handler's last statement is
        // the only trace of a rollback by SQLite itself: where the handler went on after it, what
        // it wrote may stand.
        let last = tx.lock_handle().await?.last_error();
        let at = savepoint(tx, "rollback to savepoint idem_work").await?;
        let by_itself = last.is_some_and(|error| may_roll_back(&error)) || !tx.is_in_transaction();
        Ok(Undone::new(at, by_itself))
    }

    async fn keep_work(tx: &mut Transaction<'static, Self>) -> Result<AtSavepoint, sqlx::Error> {
        savepoint(tx, "release savepoint idem_work").await
    }

    async fn limit(_: &mut Transaction<'static, Self>, _: Limits) -> Result<(), sqlx::Error> {
        // A process that is gone holds no lock on a file.
        Ok(())
    }

    async fn store(
        tx: &mut Transaction<'static, Self>,
        statements: &Statements,
        completion: Completion<'_>,
    ) -> Result<Stored, sqlx::Error> {
        let stored = sqlx::query(statements.store.clone())
            .bind(&completion.key.tenant)
            .bind(&*completion.key.scope)
            .bind(&completion.key.key)
            .bind(&completion.fingerprint.as_bytes()[..])
            .bind(completion.columns.state().to_column())
            .bind(completion.columns.status)
            .bind(completion.columns.headers)
            .bind(completion.columns.body)
            .bind(millis(completion.ttl))
            .fetch_all(&mut **tx)
            .await;
        match stored {
            Ok(rows) if rows.len() == 1 => Ok(Stored::InPlace),
            Ok(_) => Ok(Stored::Taken),
            Err(error) if is_without_savepoint(&error) => Ok(Stored::Ended),
            Err(error) => Err(error),
        }
    }

    async fn roll_back(mut tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        forget_transactions(&mut tx).await?;
        tx.rollback().await
    }

    async fn find(
        conn: &mut SqliteConnection,
        statements: &Statements,
        key: &KeyColumns,
    ) -> Result<Option<StoredRow>, sqlx::Error> {
        let row = sqlx::query(statements.find.clone())
            .bind(&key.tenant)
            .bind(&*key.scope)
            .bind(&key.key)
            .fetch_optional(conn)
            .await?;
        row.as_ref().map(stored_row).transpose()
    }

    async fn execute(
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<u64, sqlx::Error> {
        Ok(bound(statement, binds).execute(conn).await?.rows_affected())
    }

    async fn fetch_numbers(
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<Option<Vec<Option<i64>>>, sqlx::Error> {
        let row = bound(statement, binds).fetch_optional(conn).await?;
        let numbers = |row: SqliteRow| (0..row.len()).map(|column| row.try_get(column)).collect();
        row.map(numbers).transpose()
    }

    async fn fetch_steps(
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<Vec<StepRow>, sqlx::Error> {
        let rows = bound(statement, binds).fetch_all(conn).await?;
        let step = |row: &SqliteRow| {
            Ok(StepRow {
                name: row.try_get("name")?,
                result: row.try_get("result")?,
            })
        };
        rows.iter().map(step).collect()
    }

    async fn fetch_messages(
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<Vec<MessageRow>, sqlx::Error> {
        let rows = bound(statement, binds).fetch_all(conn).await?;
        rows.iter().map(message_row).collect()
    }

    fn arrivals(_pool: &Pool<Self>, _outbox: &str) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }

    fn outbox_statements(tables: &Tables) -> OutboxStatements {
        OutboxStatements::new(tables, WORDS)
    }

    async fn sweep(
        pool: &Pool<Self>,
        statements: &Statements,
        batch: u32,
    ) -> Result<u64, sqlx::Error> {
        let mut tx = begin(pool.acquire().await?, "begin immediate").await?;
        let now: i64 = sqlx::query_scalar("select cast(unixepoch('subsec') * 1000 as integer)")
            .fetch_one(&mut *tx)
            .await?;
        let expired = [Bind::Int(now), Bind::Int(i64::from(batch))];
        let mut swept = 0;
        for statement in &statements.sweep {
            swept = Self::execute(&mut tx, statement, &expired).await?;
        }
        tx.commit().await?;
        Ok(swept)
    }

    fn classify(error: &(dyn DatabaseError + 'static)) -> StoreErrorKind {
        match primary(extended(error)) {
            // SQLITE_ERROR: for our constant statements this is a missing table or column.
            1 => StoreErrorKind::Misconfigured,
            // SQLITE_BUSY, SQLITE_LOCKED, and SQLITE_CONSTRAINT at the commit.
            BUSY | 6 | 19 => StoreErrorKind::Aborted,
            _ => StoreErrorKind::Unavailable,
        }
    }
}

/// `SQLITE_BUSY`.
const BUSY: u32 = 5;

/// How long a migration waits for others to let go of the file, and how often it looks.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The result code of an error; 0, which is none, where it has none.
fn extended(error: &dyn DatabaseError) -> u32 {
    error
        .code()
        .and_then(|code| code.parse().ok())
        .unwrap_or_default()
}

/// The primary result code is the low byte of the extended one.
const fn primary(extended: u32) -> u32 {
    extended & 0xff
}

/// Returns whether SQLite may roll a whole transaction back with an error like this one.
fn may_roll_back(error: &SqliteError) -> bool {
    // SQLITE_NOMEM, SQLITE_INTERRUPT, SQLITE_IOERR, SQLITE_FULL, and SQLITE_CONSTRAINT, from a
    // `raise(rollback)` or an `on conflict rollback`.
    matches!(primary(extended(error)), 7 | 9 | 10 | 13 | 19)
}

/// Begins a transaction on a connection from the pool.
async fn begin(
    mut conn: PoolConnection<Sqlite>,
    statement: &'static str,
) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
    forget_transactions(&mut conn).await?;
    Transaction::begin(conn, Some(statement.into_sql_str())).await
}

/// More than one where transactions are nested.
const SAVEPOINTS_OF_SQLX: &str = "\
savepoint _sqlx_savepoint_1; savepoint _sqlx_savepoint_2; savepoint _sqlx_savepoint_3";

/// Rolls back whatever sqlx counts as open, so that it counts nothing.
///
/// SQLite rolls a transaction back by itself where a disk is full, a commit fails, or a trigger says
/// so, and a handler may have ended it. sqlx 0.9.0 goes on counting what is not there, since there is
/// nothing that its ROLLBACK could end, and refuses to begin on this connection ever after. So here
/// it gets something to end: a savepoint outside of a transaction begins one.
async fn forget_transactions(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    // One turn for each transaction in a transaction.
    for _ in 0..4 {
        if !conn.is_in_transaction() {
            break;
        }
        sqlx::raw_sql(SAVEPOINTS_OF_SQLX)
            .execute(&mut *conn)
            .await?;
        // Refused inside of a transaction, and what is refused is rolled back.
        drop(conn.begin_with("begin").await);
        // The rollback is behind us when this comes back.
        conn.ping().await?;
    }
    Ok(())
}

/// Runs a statement on the savepoint of the handler's work.
async fn savepoint(
    tx: &mut Transaction<'static, Sqlite>,
    statement: &'static str,
) -> Result<AtSavepoint, sqlx::Error> {
    match sqlx::raw_sql(statement).execute(&mut **tx).await {
        Ok(_) => Ok(AtSavepoint::Done),
        Err(error) if is_without_savepoint(&error) => Ok(AtSavepoint::Ended),
        Err(error) => Err(error),
    }
}

/// Returns whether the savepoint of the work is gone, which it is with the transaction that the
/// handler ended. The code, `SQLITE_ERROR`, says less than the message.
fn is_without_savepoint(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(error) if error.message().starts_with("no such savepoint"))
}

fn stored_row(row: &SqliteRow) -> Result<StoredRow, sqlx::Error> {
    let columns = ResponseColumns {
        status: row.try_get("status")?,
        headers: row.try_get("headers")?,
        body: row.try_get("body")?,
    };
    let times = Times {
        locked_until: row.try_get("locked_until")?,
        expires_at: row.try_get("expires_at")?,
        now: row.try_get("now")?,
    };
    let fingerprint = row.try_get("fingerprint")?;
    StoredRow::from_columns(
        fingerprint,
        row.try_get("state")?,
        token(row)?,
        times,
        columns,
    )
}

fn token(row: &SqliteRow) -> Result<Token, sqlx::Error> {
    Ok(Token {
        attempt: row.try_get("attempt")?,
        created: row.try_get("created")?,
    })
}

fn message_row(row: &SqliteRow) -> Result<MessageRow, sqlx::Error> {
    Ok(MessageRow {
        id: row.try_get("id")?,
        claim: row.try_get("claim")?,
        attempts: row.try_get("attempts")?,
        message_id: row.try_get("message_id")?,
        topic: row.try_get("topic")?,
        key: row.try_get("key")?,
        headers: row.try_get("headers")?,
        payload: row.try_get("payload")?,
        error: row.try_get("error")?,
        created: row.try_get("created")?,
    })
}

fn bound(statement: &SqlStr, binds: &[Bind<'_>]) -> Query<'static, Sqlite, SqliteArguments> {
    binds
        .iter()
        .fold(sqlx::query(statement.clone()), |query, bind| match *bind {
            Bind::Text(text) => query.bind(text.to_owned()),
            Bind::TextOrNull(text) => query.bind(text.map(str::to_owned)),
            Bind::Int(number) => query.bind(number),
            Bind::Small(number) => query.bind(number),
            Bind::Attempt(number) => query.bind(number),
            Bind::Bytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
        })
}
