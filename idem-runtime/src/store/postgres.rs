//! PostgreSQL, from version 12.
//!
//! The gate is two advisory locks of the transaction: one for the key with its fingerprint, then
//! one for the key. Who has both owns the key; who fails on the first knows that the same request
//! is in flight, who fails on the second that another one is. The row is inserted once, finished, as the last statement: no dead tuple, and
//! the unique constraint is the last fence.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use sha2::{Digest, Sha256};
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, Pool, Postgres, Row, SqlSafeStr, SqlStr, Transaction,
};

use super::lease::{Bind, LeaseStatements, StepRow};
use super::outbox::{MessageRow, OutboxStatements};
use super::{
    AtSavepoint, Backend, Completion, Gate, KeyColumns, Limits, Opened, Statements, Store, Stored,
    StoredRow, Tables, Undone, millis,
};
use crate::error::StoreErrorKind;
use crate::fingerprint::Fingerprint;
use crate::record::length_prefixed;
use rows::{bound, message_row, stored_row};

mod arrivals;
mod rows;

const MIGRATE: &str = concat!(
    include_str!("../../migrations/postgres/0001_keys.sql"),
    "\n",
    include_str!("../../migrations/postgres/0002_steps.sql"),
    "\n",
    include_str!("../../migrations/postgres/0003_outbox.sql"),
);

/// `create table if not exists` is no protection against another process that creates the same
/// table at this moment; the lock is, at a level that sees what was committed before it. Its number
/// is the text "idem" in ASCII. Whatever limits the user has, a process that starts waits for the one
/// that migrates, and an index takes its time. Behind the lock the user's limit for locks counts again:
/// whoever waits to create an index holds up all that write. That a table exists is no news worth a
/// notice. `begin` comes behind what can fail, as in [`begin`]. The savepoint is for a user who may not
/// create tables: PostgreSQL refuses that where they exist too, and those that another user has made
/// will do.
const BEGIN_MIGRATION: &str = "\
set transaction isolation level read committed, read write; \
set local client_min_messages = warning; set local statement_timeout = 0; \
set local lock_timeout = 0; select pg_advisory_xact_lock(1768187245); \
set local lock_timeout to default; begin; savepoint idem_migration";

/// Whatever the defaults are.
const BEGIN_SWEEP: &str = "set transaction isolation level read committed, read write; begin";

/// Every column, so that a table of another shape is found at start.
const CHECK: &str = "\
select tenant, scope, key, fingerprint, state, attempt, locked_until, status, headers, body, \
created_at, completed_at, expires_at from {keys} limit 0";

/// The columns of a row. Times travel as they are: arithmetic in the statement costs more than the
/// rest of it.
macro_rules! row {
    () => {
        "k.fingerprint, k.state, k.attempt, k.status, k.headers, k.body, \
         k.created_at as created, k.locked_until, k.expires_at, statement_timestamp() as now"
    };
}

/// The gate's answer and the row, if there is one. A statement of its own after the gate: its
/// snapshot sees what the gate's last owner committed.
const OPEN: &str = concat!(
    "select current_setting('idem.gate') as gate, ",
    row!(),
    " from (select 1) as one left join {keys} as k \
     on k.tenant = $1 and k.scope = $2 and k.key = $3"
);

const FIND: &str = concat!(
    "select ",
    row!(),
    " from {keys} as k where k.tenant = $1 and k.scope = $2 and k.key = $3"
);

/// Inserts nothing once the transaction of the claim is over: the gate's setting is local to it.
/// The unique constraint is the last fence.
macro_rules! store {
    () => {
        "insert into {keys} as k (tenant, scope, key, fingerprint, state, attempt, status, headers, \
         body, created_at, completed_at, expires_at) \
         select $1, $2, $3, $4, $5, 1, $6, $7, $8, now(), clock_timestamp(), \
         clock_timestamp() + $9 * interval '1 millisecond' \
         where current_setting('idem.gate', true) = 'ours'"
    };
}

const STORE_NEW: &str = store!();

/// An expired row is replaced; any other is the last fence.
const STORE: &str = concat!(
    store!(),
    " on conflict (tenant, scope, key) do update set \
     fingerprint = excluded.fingerprint, state = excluded.state, attempt = excluded.attempt, \
     locked_until = null, status = excluded.status, headers = excluded.headers, \
     body = excluded.body, created_at = excluded.created_at, \
     completed_at = excluded.completed_at, expires_at = excluded.expires_at \
     where k.expires_at <= clock_timestamp()"
);

/// Found by the index on `expires_at`, and removed with their steps from the place where they were
/// locked: one that has moved meanwhile is left to the next batch. The table is part of the place,
/// where it is partitioned. A key that waits for an operator stays, and so does one with a live
/// lease.
const SWEEP: &str = "\
with expired as (\
select tableoid as part, ctid as place, tenant, scope, key from {keys} \
where expires_at <= now() and state <> 4 and (locked_until is null or locked_until <= now()) \
order by expires_at limit $1 for update skip locked), \
steps as (delete from {steps} as s using expired as e \
where s.tenant = e.tenant and s.scope = e.scope and s.key = e.key) \
delete from {keys} as k using expired as e where k.ctid = e.place and k.tableoid = e.part";

/// What the templates of leased mode say in this dialect.
const WORDS: &[(&str, &str)] = &[
    ("{now}", "clock_timestamp()"),
    ("{ms}", "interval '1 millisecond'"),
    (
        "{created}",
        "(extract(epoch from created_at) * 1000000)::int8",
    ),
    ("{millis(", "(1000 * extract(epoch from "),
    (")}", "))::int8"),
    ("{instant}", "statement_timestamp()"),
    ("{skip locked}", " for update skip locked"),
    // As an array, so that the rows are found by their key, however many are guessed.
    ("{in (}", "= any (array("),
    ("{) in}", "))"),
    ("{wake}", "pg_notify('{outbox}', '')"),
];

#[diagnostic::do_not_recommend]
impl Backend for Postgres {}

impl Store for Postgres {
    const SINGLE_WRITER: bool = false;

    fn statements(tables: &Tables) -> Statements {
        Statements {
            keys: Arc::clone(&tables.keys),
            migrate: tables.put_into(MIGRATE),
            check: tables.put_into(CHECK),
            uniques: tables.uniques(),
            open: tables.put_into(OPEN),
            find: tables.put_into(FIND),
            store: tables.put_into(STORE),
            store_new: tables.put_into(STORE_NEW),
            sweep: [tables.put_into(SWEEP)].into(),
            lease: LeaseStatements::new(tables, WORDS),
            outbox: Self::outbox_statements(tables),
        }
    }

    async fn migrate(pool: &Pool<Self>, statements: &Statements) -> Result<(), sqlx::Error> {
        let mut tx = pool.begin_with(BEGIN_MIGRATION).await?;
        let migrated = sqlx::raw_sql(statements.migrate.clone())
            .execute(&mut *tx)
            .await;
        let refused = match migrated {
            Ok(_) => None,
            Err(error) if is_refused(&error) => {
                sqlx::raw_sql("rollback to savepoint idem_migration")
                    .execute(&mut *tx)
                    .await?;
                Some(error)
            }
            Err(error) => return Err(error),
        };
        for check in statements.checks() {
            if let Err(error) = sqlx::query(check.clone()).execute(&mut *tx).await {
                return Err(refused.unwrap_or(error));
            }
        }
        tx.commit().await
    }

    async fn open(
        conn: PoolConnection<Self>,
        statements: &Statements,
        key: &KeyColumns,
        fingerprint: &Fingerprint,
        limits: Limits,
    ) -> Result<Opened<Self>, sqlx::Error> {
        let (lock_of_key, lock_of_request) = locks(&statements.keys, key, fingerprint);
        // One round trip for all of it. First the lock on key and fingerprint, then the one on
        // the key: the other way round a duplicate could come between the two and take the same
        // request for another one. Locks come before the savepoint, which would release them.
        let gate = format!(
            "select set_config('idem.gate', case \
             when not pg_try_advisory_xact_lock({lock_of_request}) then 'same' \
             when not pg_try_advisory_xact_lock({lock_of_key}) then 'other' \
             else 'ours' end, true)"
        );
        #[cfg(idem_seeded_bugs)]
        let gate = if crate::seeded::bug("check_then_insert") {
            "select set_config('idem.gate', 'ours', true)".to_owned()
        } else {
            gate
        };
        let mut tx = begin(conn, limits, &gate).await?;
        let row = sqlx::query(statements.open.clone())
            .bind(&key.tenant)
            .bind(&*key.scope)
            .bind(&key.key)
            .fetch_one(&mut *tx)
            .await?;
        let gate = match row.try_get("gate")? {
            "ours" => Gate::Ours,
            "same" => Gate::SameRequest,
            _ => Gate::OtherRequest,
        };
        let found = stored_row(&row)?;
        Ok(Opened { tx, gate, found })
    }

    async fn open_unclaimed(
        conn: PoolConnection<Self>,
        limits: Limits,
    ) -> Result<Transaction<'static, Self>, sqlx::Error> {
        begin(conn, limits, "select set_config('idem.gate', 'none', true)").await
    }

    async fn undo_work(tx: &mut Transaction<'static, Self>) -> Result<Undone, sqlx::Error> {
        let at = savepoint(tx, "rollback to savepoint idem_work").await?;
        // sqlx 0.9.0 rolls everything back where a nested transaction fails to begin.
        Ok(Undone::new(at, !tx.is_in_transaction()))
    }

    async fn keep_work(tx: &mut Transaction<'static, Self>) -> Result<AtSavepoint, sqlx::Error> {
        savepoint(tx, "release savepoint idem_work").await
    }

    async fn limit(tx: &mut Transaction<'static, Self>, limits: Limits) -> Result<(), sqlx::Error> {
        let limits = AssertSqlSafe(set_limits(limits));
        sqlx::raw_sql(limits).execute(&mut **tx).await.map(drop)
    }

    async fn store(
        tx: &mut Transaction<'static, Self>,
        statements: &Statements,
        completion: Completion<'_>,
    ) -> Result<Stored, sqlx::Error> {
        // Without a row in sight a plain insert does, which costs the server a tenth less.
        let statement = if completion.replaces {
            &statements.store
        } else {
            &statements.store_new
        };
        // Who has no gate does not let the constraint stop it either.
        #[cfg(idem_seeded_bugs)]
        let statement = if crate::seeded::bug("check_then_insert") {
            &statements.store
        } else {
            statement
        };
        let stored = sqlx::query(statement.clone())
            .bind(&completion.key.tenant)
            .bind(&*completion.key.scope)
            .bind(&completion.key.key)
            .bind(&completion.fingerprint.as_bytes()[..])
            .bind(completion.columns.state().to_column())
            .bind(completion.columns.status)
            .bind(completion.columns.headers)
            .bind(completion.columns.body)
            .bind(millis(completion.ttl))
            .execute(&mut **tx)
            .await;
        match stored {
            Ok(stored) if stored.rows_affected() == 1 => return Ok(Stored::InPlace),
            Ok(_) => {}
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                return Ok(Stored::Taken);
            }
            Err(error) => return Err(error),
        }
        let ours: bool =
            sqlx::query_scalar("select coalesce(current_setting('idem.gate', true), '') = 'ours'")
                .fetch_one(&mut **tx)
                .await?;
        Ok(if ours { Stored::Taken } else { Stored::Ended })
    }

    async fn roll_back(tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        // Where the handler has ended the transaction, the server only warns.
        tx.rollback().await
    }

    async fn find(
        conn: &mut PgConnection,
        statements: &Statements,
        key: &KeyColumns,
    ) -> Result<Option<StoredRow>, sqlx::Error> {
        let row = sqlx::query(statements.find.clone())
            .bind(&key.tenant)
            .bind(&*key.scope)
            .bind(&key.key)
            .fetch_optional(conn)
            .await?;
        Ok(row.as_ref().map(stored_row).transpose()?.flatten())
    }

    async fn execute(
        conn: &mut PgConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<u64, sqlx::Error> {
        Ok(bound(statement, binds).execute(conn).await?.rows_affected())
    }

    async fn fetch_numbers(
        conn: &mut PgConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<Option<Vec<Option<i64>>>, sqlx::Error> {
        let row = bound(statement, binds).fetch_optional(conn).await?;
        let numbers = |row: PgRow| (0..row.len()).map(|column| row.try_get(column)).collect();
        row.map(numbers).transpose()
    }

    async fn fetch_steps(
        conn: &mut PgConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<Vec<StepRow>, sqlx::Error> {
        let rows = bound(statement, binds).fetch_all(conn).await?;
        let step = |row: &PgRow| {
            Ok(StepRow {
                name: row.try_get("name")?,
                result: row.try_get("result")?,
            })
        };
        rows.iter().map(step).collect()
    }

    async fn fetch_messages(
        conn: &mut PgConnection,
        statement: &SqlStr,
        binds: &[Bind<'_>],
    ) -> Result<Vec<MessageRow>, sqlx::Error> {
        let rows = bound(statement, binds).fetch_all(conn).await?;
        rows.iter().map(message_row).collect()
    }

    fn arrivals(pool: &Pool<Self>, outbox: &str) -> BoxStream<'static, ()> {
        arrivals::listen_to(pool, outbox)
    }

    fn outbox_statements(tables: &Tables) -> OutboxStatements {
        OutboxStatements::new(tables, WORDS)
    }

    async fn sweep(
        pool: &Pool<Self>,
        statements: &Statements,
        batch: u32,
    ) -> Result<u64, sqlx::Error> {
        let mut tx = pool.begin_with(BEGIN_SWEEP).await?;
        let mut swept = 0;
        for statement in &statements.sweep {
            swept = Self::execute(&mut tx, statement, &[Bind::Int(i64::from(batch))]).await?;
        }
        tx.commit().await?;
        Ok(swept)
    }

    fn classify(error: &(dyn DatabaseError + 'static)) -> StoreErrorKind {
        match error.code().as_deref() {
            // Undefined table, column, or schema; no unique constraint; no right to use them; a name
            // that is a keyword.
            Some("42P01" | "42703" | "3F000" | "42P10" | "42501" | "42601") => {
                StoreErrorKind::Misconfigured
            }
            // Serialization failure, deadlock, lock not available, a transaction that an earlier
            // error aborted, a statement out of time, and a constraint that failed at the commit.
            Some("40001" | "40P01" | "55P03" | "25P02" | "57014") => StoreErrorKind::Aborted,
            Some(code) if code.starts_with("23") => StoreErrorKind::Aborted,
            _ => StoreErrorKind::Unavailable,
        }
    }
}

/// Returns whether the user has no right to do this.
fn is_refused(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.code().as_deref() == Some("42501"))
}

/// The numbers of the gate: one for the key, and one for the key with its request. The table is
/// part of them, since handles on two tables share the locks.
fn locks(table: &str, key: &KeyColumns, fingerprint: &Fingerprint) -> (i64, i64) {
    let parts: [&str; 4] = [table, &key.tenant, &key.scope, &key.key];
    let digest = Sha256::digest(length_prefixed(parts.map(str::as_bytes)));
    let number = |bytes: &[u8]| bytes.first_chunk().copied().map_or(0, i64::from_be_bytes);
    // A fingerprint is a digest itself, as evenly spread as what it is mixed with.
    let of_request = number(&digest[8..]) ^ number(fingerprint.as_bytes());
    (number(&digest), of_request)
}

/// Runs a statement on the savepoint of the handler's work.
async fn savepoint(
    tx: &mut Transaction<'static, Postgres>,
    statement: &'static str,
) -> Result<AtSavepoint, sqlx::Error> {
    match sqlx::raw_sql(statement).execute(&mut **tx).await {
        Ok(_) => Ok(AtSavepoint::Done),
        // No such savepoint, or no transaction.
        Err(sqlx::Error::Database(error))
            if matches!(error.code().as_deref(), Some("3B001" | "25P01")) =>
        {
            Ok(AtSavepoint::Ended)
        }
        Err(error) => Err(error),
    }
}

/// Begins a transaction that gives up by itself when this process vanishes, and sets the
/// savepoint of the handler's work.
///
/// `begin` comes after all that can fail: until then the statements of one message are a transaction
/// that the server ends itself on an error. sqlx knows nothing of one that failed as it began, and
/// would lend its connection, aborted, to the next who asks.
async fn begin(
    conn: PoolConnection<Postgres>,
    limits: Limits,
    gate: &str,
) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let limits = set_limits(limits);
    let begin = format!(
        "set transaction isolation level read committed, read write; {limits}; {gate}; \
         begin; savepoint idem_work"
    );
    Transaction::begin(conn, Some(AssertSqlSafe(begin).into_sql_str())).await
}

/// The limits as statements; only numbers of ours go into the text.
fn set_limits(limits: Limits) -> String {
    // Zero is no limit.
    let setting = |limit: Duration| millis(limit).clamp(1, i64::from(i32::MAX));
    format!(
        "set local statement_timeout = {}; set local idle_in_transaction_session_timeout = {}",
        setting(limits.statement),
        setting(limits.idle),
    )
}
