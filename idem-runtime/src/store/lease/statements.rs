//! The statements of leased mode. The dialects differ in a few words only, so they are templates:
//! `{now}` is the clock, `{ms}` a millisecond, `{created}` the instant of creation as an integer.

use sqlx::SqlStr;

use crate::store::Tables;

/// The statements with the table names and the dialect's words in place.
#[derive(Clone, Debug)]
pub(crate) struct LeaseStatements {
    pub(super) claim: SqlStr,
    pub(super) renew: SqlStr,
    pub(super) finish: SqlStr,
    pub(super) release: SqlStr,
    pub(super) forget: SqlStr,
    pub(super) park: SqlStr,
    pub(in crate::store) check: SqlStr,
    pub(super) steps: SqlStr,
    pub(super) begin_step: SqlStr,
    pub(super) end_step: SqlStr,
    pub(super) clear_steps: SqlStr,
    pub(super) settle: SqlStr,
    pub(super) clear_begun: SqlStr,
    pub(super) inspect: SqlStr,
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

/// It never expires as it is; what it says from now on counts once an operator has settled it.
const PARK: &str =
    fenced!("update {keys} set state = 4, locked_until = null, expires_at = {now} + $6 * {ms}");

/// A run that left no step behind leaves nothing behind. A statement of its own after the release:
/// its snapshot has every step that the release may have waited for.
const FORGET: &str = "\
delete from {keys} where tenant = $1 and scope = $2 and key = $3 \
and attempt = $4 and {created} = $5 and state = 1 and locked_until is null \
and not exists (select 1 from {steps} as s \
where s.tenant = $1 and s.scope = $2 and s.key = $3)";

/// Every column, as for the keys.
const CHECK: &str = "\
select tenant, scope, key, name, attempt, result, begun_at, completed_at from {steps} limit 0";

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
expires_at = case when $9 = 1 and expires_at > {now} + $8 * {ms} then expires_at \
else {now} + $8 * {ms} end \
where tenant = $1 and scope = $2 and key = $3 and state in (1, 4) \
and (locked_until is null or locked_until <= {now})";

/// What an operator sees of a key: everything but its response.
const INSPECT: &str = "\
select cast(state as bigint), cast(attempt as bigint), {millis(created_at)}, \
{millis(locked_until)}, {millis(completed_at)}, {millis(expires_at)}, {millis({now})} \
from {keys} where tenant = $1 and scope = $2 and key = $3";

impl LeaseStatements {
    /// Puts the dialect's words and the table names into the templates.
    pub(in crate::store) fn new(tables: &Tables, words: &[(&str, &str)]) -> Self {
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
            check: put(CHECK),
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
