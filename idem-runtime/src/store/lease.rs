//! The statements of leased mode: each one on the database's clock, and each after the claim
//! fenced by the attempt.
//!
//! The dialects differ in three words only, so they are templates: `{now}` is the clock, `{ms}` a
//! millisecond, `{created}` the instant of creation as an integer. A fence is the attempt number
//! *and* that instant: a key that expired, was swept, and was claimed anew counts its attempts
//! from 1 again, and an owner from before must not pass for the new one.

use std::time::Duration;

use sqlx::{SqlStr, Transaction};

use super::{KeyColumns, Limits, ResponseColumns, Store, Tables, millis};
use crate::claim::{State, Timestamp};
use crate::fingerprint::Fingerprint;

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

/// The statements with the table names and the dialect's words in place.
#[derive(Clone, Debug)]
pub(crate) struct LeaseStatements {
    claim: SqlStr,
    renew: SqlStr,
    finish: SqlStr,
    release: SqlStr,
    forget: SqlStr,
    park: SqlStr,
    steps: SqlStr,
    begin_step: SqlStr,
    end_step: SqlStr,
    clear_steps: SqlStr,
    settle: SqlStr,
    clear_begun: SqlStr,
    inspect: SqlStr,
}

/// New, past its ttl, or with a lease that is over: ours. A new life of the key begins with
/// attempt 1 and a new instant of creation; a take-over keeps the instant and counts up. The
/// instants of `excluded` are from before the wait for the row, so none of them is used.
const CLAIM: &str = "\
insert into {keys} as k (tenant, scope, key, fingerprint, state, attempt, locked_until, \
created_at, expires_at) \
values ($1, $2, $3, $4, 1, 1, {now} + $5 * {ms}, {now}, {now} + $6 * {ms}) \
on conflict (tenant, scope, key) do update set \
attempt = case when k.expires_at <= {now} then 1 else k.attempt + 1 end, \
created_at = case when k.expires_at <= {now} then {now} else k.created_at end, \
fingerprint = excluded.fingerprint, state = 1, locked_until = {now} + $5 * {ms}, \
status = null, headers = null, body = null, completed_at = null, \
expires_at = {now} + $6 * {ms} \
where k.state <> 4 and (k.locked_until is null or k.locked_until <= {now}) \
and (k.expires_at <= {now} or (k.state = 1 and k.fingerprint = excluded.fingerprint)) \
returning cast(attempt as bigint), {created}";

/// The condition of every statement of an owner. One that gave the key back is an owner no more:
/// its heartbeat, or a step that it dropped, may still be on the way.
macro_rules! fenced {
    ($statement:literal) => {
        concat!(
            $statement,
            " where tenant = $1 and scope = $2 and key = $3 ",
            "and attempt = $4 and {created} = $5 and state = 1 and locked_until is not null"
        )
    };
}

const RENEW: &str =
    fenced!("update {keys} set locked_until = {now} + $6 * {ms}, expires_at = {now} + $7 * {ms}");

const FINISH: &str = fenced!(
    "update {keys} set state = $6, status = $7, headers = $8, body = $9, \
     completed_at = {now}, locked_until = null, expires_at = {now} + $10 * {ms}"
);

const RELEASE: &str = fenced!("update {keys} set locked_until = null");

const PARK: &str = fenced!("update {keys} set state = 4, locked_until = null");

/// A run that left no step behind leaves nothing behind. A statement of its own after the release:
/// its snapshot has every step that the release may have waited for.
const FORGET: &str = "\
delete from {keys} where tenant = $1 and scope = $2 and key = $3 \
and attempt = $4 and {created} = $5 and state = 1 and locked_until is null \
and not exists (select 1 from {steps} as s \
where s.tenant = $1 and s.scope = $2 and s.key = $3)";

const STEPS: &str = "\
select name, result from {steps} where tenant = $1 and scope = $2 and key = $3 order by name";

const BEGIN_STEP: &str = "\
insert into {steps} as s (tenant, scope, key, name, attempt, begun_at) \
values ($1, $2, $3, $4, $5, {now}) \
on conflict (tenant, scope, key, name) do update set \
attempt = excluded.attempt, begun_at = excluded.begun_at where s.result is null";

const END_STEP: &str = "\
insert into {steps} as s (tenant, scope, key, name, attempt, result, begun_at, completed_at) \
values ($1, $2, $3, $4, $5, $6, {now}, {now}) \
on conflict (tenant, scope, key, name) do update set \
attempt = excluded.attempt, result = excluded.result, completed_at = excluded.completed_at \
where s.result is null";

const CLEAR_STEPS: &str = "delete from {steps} where tenant = $1 and scope = $2 and key = $3";

const CLEAR_BEGUN: &str = "\
delete from {steps} where tenant = $1 and scope = $2 and key = $3 and result is null";

/// An operator's word: only where nobody holds a live lease, and nothing is finished. It counts as
/// an attempt, so that an owner that comes back finds itself fenced.
const SETTLE: &str = "\
update {keys} set state = $4, attempt = attempt + 1, status = $5, headers = $6, body = $7, \
completed_at = case when $4 = 1 then null else {now} end, locked_until = null, \
expires_at = {now} + $8 * {ms} \
where tenant = $1 and scope = $2 and key = $3 and state in (1, 4) \
and (locked_until is null or locked_until <= {now})";

/// What an operator sees of a key: everything but its response.
const INSPECT: &str = "\
select cast(state as bigint), cast(attempt as bigint), {millis(created_at)}, \
{millis(locked_until)}, {millis(completed_at)}, {millis(expires_at)}, {millis({now})} \
from {keys} where tenant = $1 and scope = $2 and key = $3";

impl LeaseStatements {
    /// Puts the dialect's words and the table names into the templates.
    pub(super) fn new(tables: &Tables, words: &[(&str, &str)]) -> Self {
        #[cfg(not(idem_seeded_bugs))]
        let put = |template| tables.say(template, words);
        #[cfg(idem_seeded_bugs)]
        let put = |template| tables.say(&crate::seeded::unfenced(template), words);
        Self {
            claim: put(CLAIM),
            renew: put(RENEW),
            finish: put(FINISH),
            release: put(RELEASE),
            forget: put(FORGET),
            park: put(PARK),
            steps: put(STEPS),
            begin_step: put(BEGIN_STEP),
            end_step: put(END_STEP),
            clear_steps: put(CLEAR_STEPS),
            settle: put(SETTLE),
            clear_begun: put(CLEAR_BEGUN),
            inspect: put(INSPECT),
        }
    }
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
) -> Result<bool, sqlx::Error> {
    fenced(tx, &sql.park, fence, &[]).await
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
/// outcome; false when it is not the operator's to settle.
pub(crate) async fn settle<DB: Store>(
    tx: &mut Tx<DB>,
    sql: &LeaseStatements,
    key: &KeyColumns,
    outcome: Option<&ResponseColumns>,
    ttl: Duration,
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
        Bind::Int(millis(ttl)),
    ];
    let settled = DB::execute(tx, &sql.settle, &binds).await? == 1;
    if settled && outcome.is_none() {
        // The operator has looked: what was begun and not finished did not happen.
        DB::execute(tx, &sql.clear_begun, &key.binds()).await?;
    }
    Ok(settled)
}
