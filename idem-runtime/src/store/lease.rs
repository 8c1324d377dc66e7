//! What leased mode asks of a database: each statement on its clock, and each after the claim fenced.
//! A fence is the attempt number *and* the instant of creation: a key that expired, was swept, and was
//! claimed anew counts its attempts from 1 again, and an owner from before must not pass for the new
//! one.

use std::time::Duration;

use sqlx::{SqlStr, Transaction};

use super::{KeyColumns, Limits, ResponseColumns, Store, millis};
use crate::claim::{State, Timestamp};
use crate::fingerprint::Fingerprint;
pub(crate) use statements::LeaseStatements;

mod statements;

/// Who may write under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) attempt: i32,
    /// When the key was created, in the unit of the database.
    pub(crate) created: i64,
}

/// The row of a leased claim, as its owner names it in every statement.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) key: KeyColumns,
    pub(crate) token: Token,
}

/// How long a claim holds, and how long its key is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    pub(crate) ttl: Duration,
}

impl Terms {
    /// The limits of a transaction that holds the key's row: an owner that freezes in the middle of
    /// one must not hold up its take-over.
    pub(crate) fn limits(&self) -> Limits {
        Limits::for_ours((self.lease * 2 / 3).clamp(SHORTEST_LIMIT, LONGEST_LIMIT))
    }
}

/// Less would end transactions of a database that is only slow.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);

/// More would be of no use to statements on one row.
const LONGEST_LIMIT: Duration = Duration::from_secs(10);

/// What a run of a key has recorded of a step; without a result it was begun and not finished.
#[derive(Debug)]
pub struct StepRow {
    pub(crate) name: String,
    pub(crate) result: Option<Vec<u8>>,
}

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Bind<'a> {
    /// Text.
    Text(&'a str),
    /// Text, where there may be none.
    TextOrNull(Option<&'a str>),
    /// A count or an instant.
    Int(i64),
    /// A small number, as states and statuses are.
    Small(Option<i16>),
    /// An attempt number.
    Attempt(i32),
    /// Bytes.
    Bytes(Option<&'a [u8]>),
}

type Tx<DB> = Transaction<'static, DB>;

impl KeyColumns {
    fn binds(&self) -> [Bind<'_>; 3] {
        [
            Bind::Text(&self.tenant),
            Bind::Text(&self.scope),
            Bind::Text(&self.key),
        ]
    }
}

/// Claims the key, or takes it over; `None` when it is neither new nor free.
pub(crate) async fn claim<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    key: &KeyColumns,
    fingerprint: &Fingerprint,
    terms: Terms,
) -> Result<Option<Token>, sqlx::Error> {
    let [tenant, scope, name] = key.binds();
    let binds = [
        tenant,
        scope,
        name,
        Bind::Bytes(Some(fingerprint.as_bytes())),
        Bind::Int(millis(terms.lease)),
        Bind::Int(millis(terms.lease + terms.ttl)),
    ];
    let Some(numbers) = DB::fetch_numbers(tx, &sql.claim, &binds).await? else {
        return Ok(None);
    };
    match numbers[..] {
        [Some(attempt), Some(created)] => {
            let attempt =
                i32::try_from(attempt).map_err(|error| sqlx::Error::Decode(error.into()))?;
            Ok(Some(Token { attempt, created }))
        }
        _ => Err(sqlx::Error::RowNotFound),
    }
}

/// Runs a statement behind the fence; false when the lease is lost.
async fn fenced<DB: Store>(
    tx: &mut Tx<DB>,
    statement: &SqlStr,
    fence: &Fence,
    more: &[Bind<'_>],
) -> Result<bool, sqlx::Error> {
    let [tenant, scope, key] = fence.key.binds();
    let Token { attempt, created } = fence.token;
    let mut binds = vec![
        tenant,
        scope,
        key,
        Bind::Attempt(attempt),
        Bind::Int(created),
    ];
    binds.extend_from_slice(more);
    Ok(DB::execute(tx, statement, &binds).await? == 1)
}

/// Lets the lease begin anew; also the lock under which a step is written.
pub(crate) async fn renew<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    fence: &Fence,
    terms: Terms,
) -> Result<bool, sqlx::Error> {
    let lease = Bind::Int(millis(terms.lease));
    let ttl = Bind::Int(millis(terms.lease + terms.ttl));
    fenced(tx, &sql.renew, fence, &[lease, ttl]).await
}

/// Stores the outcome.
pub(crate) async fn finish<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    fence: &Fence,
    columns: &ResponseColumns,
    ttl: Duration,
) -> Result<bool, sqlx::Error> {
    let binds = [
        Bind::Small(Some(columns.state().to_column())),
        Bind::Small(columns.status),
        Bind::Bytes(columns.headers.as_deref()),
        Bind::Bytes(columns.body.as_deref()),
        Bind::Int(millis(ttl)),
    ];
    fenced(tx, &sql.finish, fence, &binds).await
}

/// Gives the key back: without a trace when no step was begun, otherwise so that the next attempt
/// resumes.
pub(crate) async fn release<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    fence: &Fence,
) -> Result<bool, sqlx::Error> {
    let released = fenced(tx, &sql.release, fence, &[]).await?;
    if released {
        fenced(tx, &sql.forget, fence, &[]).await?;
    }
    Ok(released)
}

/// Leaves the key to an operator.
pub(crate) async fn park<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    fence: &Fence,
    ttl: Duration,
) -> Result<bool, sqlx::Error> {
    fenced(tx, &sql.park, fence, &[Bind::Int(millis(ttl))]).await
}

/// A key without its response; times in milliseconds since the Unix epoch.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) state: State,
    pub(crate) attempt: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) locked_until: Option<Timestamp>,
    pub(crate) completed_at: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
    pub(crate) now: Timestamp,
}

/// Looks at a key without touching it.
pub(crate) async fn inspect<DB: Store>(
    conn: &mut DB::Connection,
    sql: &LeaseStatements,
    key: &KeyColumns,
) -> Result<Option<Inspected>, sqlx::Error> {
    let Some(numbers) = DB::fetch_numbers(conn, &sql.inspect, &key.binds()).await? else {
        return Ok(None);
    };
    let [
        Some(state),
        Some(attempt),
        Some(created_at),
        locked_until,
        completed_at,
        Some(expires_at),
        Some(now),
    ] = numbers[..]
    else {
        return Err(sqlx::Error::RowNotFound);
    };
    let decode = |error: std::num::TryFromIntError| sqlx::Error::Decode(error.into());
    let column = i16::try_from(state).map_err(decode)?;
    Ok(Some(Inspected {
        state: State::from_column(column).ok_or(sqlx::Error::RowNotFound)?,
        attempt: u32::try_from(attempt).map_err(decode)?,
        created_at,
        locked_until,
        completed_at,
        expires_at,
        now,
    }))
}

/// What the key's runs have recorded.
pub(crate) async fn steps<DB: Store>(
    conn: &mut DB::Connection,
    sql: &LeaseStatements,
    key: &KeyColumns,
) -> Result<Vec<StepRow>, sqlx::Error> {
    DB::fetch_steps(conn, &sql.steps, &key.binds()).await
}

/// Notes that a step begins. The caller has renewed the lease in the same transaction.
pub(crate) async fn begin_step<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    fence: &Fence,
    name: &str,
) -> Result<bool, sqlx::Error> {
    let [tenant, scope, key] = fence.key.binds();
    let binds = [
        tenant,
        scope,
        key,
        Bind::Text(name),
        Bind::Attempt(fence.token.attempt),
    ];
    Ok(DB::execute(tx, &sql.begin_step, &binds).await? == 1)
}

/// Records a step's result. The caller has renewed the lease in the same transaction.
pub(crate) async fn end_step<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    fence: &Fence,
    name: &str,
    result: &[u8],
) -> Result<bool, sqlx::Error> {
    let [tenant, scope, key] = fence.key.binds();
    let attempt = Bind::Attempt(fence.token.attempt);
    let binds = [
        tenant,
        scope,
        key,
        Bind::Text(name),
        attempt,
        Bind::Bytes(Some(result)),
    ];
    Ok(DB::execute(tx, &sql.end_step, &binds).await? == 1)
}

/// Removes what an earlier life of the key has recorded.
pub(crate) async fn clear_steps<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    key: &KeyColumns,
) -> Result<(), sqlx::Error> {
    DB::execute(tx, &sql.clear_steps, &key.binds())
        .await
        .map(drop)
}

/// Finishes a key by an operator's word, or frees it for the next attempt when there is no
/// outcome. Without a ttl it is kept for a day, and no less than before; false when it is not the operator's to settle.
pub(crate) async fn settle<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    key: &KeyColumns,
    outcome: Option<&ResponseColumns>,
    ttl: Option<Duration>,
) -> Result<bool, sqlx::Error> {
    let nothing = ResponseColumns::default();
    let columns = outcome.unwrap_or(&nothing);
    let state = outcome.map_or(State::InProgress, ResponseColumns::state);
    let [tenant, scope, name] = key.binds();
    let binds = [
        tenant,
        scope,
        name,
        Bind::Small(Some(state.to_column())),
        Bind::Small(columns.status),
        Bind::Bytes(columns.headers.as_deref()),
        Bind::Bytes(columns.body.as_deref()),
        Bind::Int(millis(ttl.unwrap_or(Duration::from_hours(24)))),
        Bind::Small(Some(i16::from(ttl.is_none()))),
    ];
    let settled = DB::execute(tx, &sql.settle, &binds).await? == 1;
    if settled && outcome.is_none() {
        // The operator has looked: what was begun and not finished did not happen.
        DB::execute(tx, &sql.clear_begun, &key.binds()).await?;
    }
    Ok(settled)
}
