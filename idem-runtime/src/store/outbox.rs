//! The statements of the outbox, as templates in the way of [`lease`](super::lease): each one on
//! the database's clock, and each after the claim fenced by the claim's number.
//!
//! Only the first unsent row of a key can be claimed. That row is thereby the lock on its key: two
//! relays cannot have two rows of one key, and a row that waits for its next attempt holds back
//! those behind it. One that comes before a row that is on its way, because it committed late or is sent
//! again, waits for that row's verdict.

use std::time::Duration;

use sqlx::SqlStr;

use super::lease::Bind;
use super::{Store, Tables, millis};
use crate::claim::Timestamp;

/// A message as its row holds it.
#[derive(Debug)]
pub struct MessageRow {
    pub(crate) id: i64,
    pub(crate) claim: i32,
    pub(crate) attempts: i32,
    pub(crate) message_id: String,
    pub(crate) topic: String,
    pub(crate) key: Option<String>,
    pub(crate) headers: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) error: Option<String>,
    /// In milliseconds since the Unix epoch.
    pub(crate) created: Timestamp,
}

/// Which claim of which row a relay holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub(crate) id: i64,
    pub(crate) claim: i32,
}

impl MessageRow {
    pub(crate) const fn claimed(&self) -> Claimed {
        Claimed {
            id: self.id,
            claim: self.claim,
        }
    }
}

/// The statements with the table's name and the dialect's words in place.
#[derive(Clone, Debug)]
pub struct OutboxStatements {
    pub(crate) check: SqlStr,
    insert: SqlStr,
    insert_waking: SqlStr,
    wake: SqlStr,
    claim: SqlStr,
    sent: SqlStr,
    failed: SqlStr,
    bury: SqlStr,
    give_back: SqlStr,
    dead: SqlStr,
    resend: SqlStr,
    sweep: SqlStr,
}

/// Every column, so that a table of another shape is found at start.
const CHECK: &str = "\
select id, message_id, topic, key, headers, payload, state, attempts, claim, error, created_at, \
due_at, locked_until, sent_at, expires_at from {outbox} limit 0";

macro_rules! insert {
    () => {
        "insert into {outbox} (message_id, topic, key, headers, payload, state, attempts, claim, \
         created_at, due_at) \
         values ($1, $2, $3, $4, $5, 1, 0, 0, {now}, {now})"
    };
}

const INSERT: &str = insert!();

/// Wakes the relays when the transaction commits, where the database can.
const INSERT_WAKING: &str = concat!(insert!(), " returning {wake}");

/// Wakes them now.
const WAKE: &str = "select {wake}";

macro_rules! message {
    () => {
        "id, claim, attempts, message_id, topic, key, headers, payload, error, \
         {millis(created_at)} as created"
    };
}

/// A pending row that is due and that no relay holds.
macro_rules! open {
    () => {
        "o.state = 1 and o.due_at <= {instant} \
         and (o.locked_until is null or o.locked_until <= {instant})"
    };
}

/// The pending rows of a key in order of writing. A range and not `=`, which would let the planner
/// take the order from the primary key, and walk past all that was ever sent.
macro_rules! pending {
    ($columns:literal of $key:literal, limit $limit:literal) => {
        concat!(
            "select ",
            $columns,
            " from {outbox} as p where p.state = 1 and p.key >= ",
            $key,
            " and p.key <= ",
            $key,
            " order by p.key, p.id limit ",
            $limit
        )
    };
}

/// How many of the rows that have been due for longest a claim looks at.
macro_rules! window {
    () => {
        "200"
    };
}

/// Whether the window shows less than there is to claim: it is full, of rows that wait for others.
macro_rules! more {
    () => {
        concat!(
            "(select count(*) from due) = ",
            window!(),
            " and (select count(*) from heads) < $1"
        )
    };
}

/// Claims first rows of their keys, those due for longest first. A claim takes as long where one key has a
/// backlog of a hundred thousand rows as where it has one:
///
/// - `due` is a window on the rows that have been due for longest, and `heads` those in it that are the
///   first of their key, or have none;
/// - `keys` walks from key to key along the index, and `firsts` adds the first row of each, and rows without
///   a key, where the window is full of rows that wait for others;
/// - `claimed` locks what is still open, and leaves out a key of which a row is on its way, among the
///   first thousand.
///
/// Sub-queries with a limit of their own leave the planner no other way, whatever it believes of the
/// table: a join would compare each row of a key with each other.
///
/// A lease that ran out belongs to a relay that died, which counts as a failed attempt: a message
/// that kills its relay must not do so for ever.
const CLAIM: &str = concat!(
    "with recursive due (id, key) as materialized (\
     select o.id, o.key from {outbox} as o where ",
    open!(),
    " order by o.due_at, o.id limit ",
    window!(),
    "), heads (id) as materialized (\
     select due.id from due where due.key is null or due.id = (",
    pending!("p.id" of "due.key", limit "1"),
    ") limit $1), \
     keys (key) as (\
     select (select o.key from {outbox} as o where o.state = 1 and o.key is not null \
     order by o.key, o.id limit 1) where ",
    more!(),
    " union all \
     select (select o.key from {outbox} as o where o.state = 1 and o.key > keys.key \
     order by o.key, o.id limit 1) from keys where keys.key is not null), \
     firsts (id) as (\
     select id from heads union \
     select id from (select o.id from {outbox} as o where o.key is null and ",
    open!(),
    " and ",
    more!(),
    " order by o.key, o.id limit $1) as unkeyed union \
     select id from (select id from (select (select case when ",
    open!(),
    " then o.id end from (",
    pending!("p.*" of "keys.key", limit "1"),
    ") as o) as id from keys where keys.key is not null) as each_key \
     where id is not null limit $1) as keyed), \
     claimed (id) as (\
     select o.id from {outbox} as o where o.id {in (}select id from firsts{) in} and ",
    open!(),
    " and (o.key is null or (\
     select max(case when ahead.locked_until > {instant} then 1 else 0 end) from (",
    pending!("p.locked_until" of "o.key", limit "1000"),
    ") as ahead) = 0) \
     order by o.due_at, o.id limit $1{skip locked}) \
     update {outbox} set claim = claim + 1, \
     attempts = attempts + case when locked_until is null then 0 else 1 end, \
     locked_until = {now} + $2 * {ms} \
     where id {in (}select id from claimed{) in} returning ",
    message!()
);

/// The condition of every statement of a relay on a row of its own.
macro_rules! claimed {
    ($statement:literal) => {
        concat!($statement, " where id = $1 and claim = $2 and state = 1")
    };
}

const SENT: &str = claimed!(
    "update {outbox} set state = 2, sent_at = {now}, locked_until = null, error = null, \
     expires_at = {now} + $3 * {ms}"
);

/// Counts, so it is not for a row that was settled: the commit of an earlier try may have got no answer.
const FAILED: &str = concat!(
    claimed!(
        "update {outbox} set attempts = attempts + 1, error = $3, locked_until = null, \
         due_at = {now} + $4 * {ms}"
    ),
    " and locked_until is not null"
);

const BURY: &str = claimed!("update {outbox} set state = 3, error = $3, locked_until = null");

const GIVE_BACK: &str = claimed!("update {outbox} set locked_until = null");

const DEAD: &str = concat!(
    "select ",
    message!(),
    " from {outbox} where state = 3 order by id limit $1"
);

const RESEND: &str = "\
update {outbox} set state = 1, attempts = 0, due_at = {now} where message_id = $1 and state = 3";

const SWEEP: &str = "\
delete from {outbox} where id {in (}select id from {outbox} \
where state = 2 and expires_at <= {instant} order by expires_at limit $1{skip locked}{) in}";

impl OutboxStatements {
    /// Puts the dialect's words and the table names into the templates.
    pub(super) fn new(tables: &Tables, words: &[(&str, &str)]) -> Self {
        let put = |template| tables.say(template, words);
        Self {
            check: put(CHECK),
            insert: put(INSERT),
            insert_waking: put(INSERT_WAKING),
            wake: put(WAKE),
            claim: put(CLAIM),
            sent: put(SENT),
            failed: put(FAILED),
            bury: put(BURY),
            give_back: put(GIVE_BACK),
            dead: put(DEAD),
            resend: put(RESEND),
            sweep: put(SWEEP),
        }
    }
}

/// A message on its way into the table.
#[derive(Debug)]
pub(crate) struct NewRow<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) headers: &'a str,
    pub(crate) payload: &'a [u8],
}

/// Writes a message in the transaction that is open on the connection. The relays are woken by its
/// commit, unless `leave` takes the statement that wakes them.
pub(crate) async fn insert<DB: Store>(
    conn: &mut DB::Connection,
    sql: &OutboxStatements,
    row: NewRow<'_>,
    leave: fn(&SqlStr) -> bool,
) -> Result<(), sqlx::Error> {
    let binds = [
        Bind::Text(row.message_id),
        Bind::Text(row.topic),
        Bind::TextOrNull(row.key),
        Bind::Text(row.headers),
        Bind::Bytes(Some(row.payload)),
    ];
    // A database with one writer has no notifications.
    let insert = if DB::SINGLE_WRITER || leave(&sql.wake) {
        &sql.insert
    } else {
        &sql.insert_waking
    };
    DB::execute(conn, insert, &binds).await.map(drop)
}

/// Claims up to `limit` due rows, of different keys, for the time of the lease.
pub(crate) async fn claim<DB: Store>(
    conn: &mut DB::Connection,
    sql: &OutboxStatements,
    limit: usize,
    lease: Duration,
) -> Result<Vec<MessageRow>, sqlx::Error> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let binds = [Bind::Int(limit), Bind::Int(millis(lease))];
    DB::fetch_messages(conn, &sql.claim, &binds).await
}

/// What a relay says about a row of its own.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// The sink has confirmed it; the row is kept for this long.
    Sent { retention: Duration },
    /// The attempt failed; the next one is due after the pause.
    Failed { error: String, pause: Duration },
    /// It is not tried again by itself.
    Bury { error: String },
    /// It was not tried.
    GiveBack,
}

/// Writes the verdict; false when the row is another relay's by now.
pub(crate) async fn settle<DB: Store>(
    conn: &mut DB::Connection,
    sql: &OutboxStatements,
    claimed: Claimed,
    verdict: &Verdict,
) -> Result<bool, sqlx::Error> {
    let mut binds = vec![Bind::Int(claimed.id), Bind::Attempt(claimed.claim)];
    let statement = match verdict {
        Verdict::Sent { retention } => {
            binds.push(Bind::Int(millis(*retention)));
            &sql.sent
        }
        Verdict::Failed { error, pause } => {
            binds.extend([Bind::Text(error), Bind::Int(millis(*pause))]);
            &sql.failed
        }
        Verdict::Bury { error } => {
            binds.push(Bind::Text(error));
            &sql.bury
        }
        Verdict::GiveBack => &sql.give_back,
    };
    Ok(DB::execute(conn, statement, &binds).await? == 1)
}

/// Lists dead letters, the oldest first.
pub(crate) async fn dead<DB: Store>(
    conn: &mut DB::Connection,
    sql: &OutboxStatements,
    limit: u32,
) -> Result<Vec<MessageRow>, sqlx::Error> {
    DB::fetch_messages(conn, &sql.dead, &[Bind::Int(i64::from(limit))]).await
}

/// Makes a dead letter due; false when there is none of this id.
pub(crate) async fn resend<DB: Store>(
    conn: &mut DB::Connection,
    sql: &OutboxStatements,
    message_id: &str,
) -> Result<bool, sqlx::Error> {
    Ok(DB::execute(conn, &sql.resend, &[Bind::Text(message_id)]).await? == 1)
}

/// Removes up to `batch` sent rows whose time is over, and says how many.
pub(crate) async fn sweep<DB: Store>(
    conn: &mut DB::Connection,
    sql: &OutboxStatements,
    batch: u32,
) -> Result<u64, sqlx::Error> {
    DB::execute(conn, &sql.sweep, &[Bind::Int(i64::from(batch))]).await
}
