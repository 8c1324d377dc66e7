//! Rows as PostgreSQL sends them, and values as it takes them.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row, SqlStr, ValueRef};

use crate::store::lease::{Bind, Token};
use crate::store::outbox::MessageRow;
use crate::store::row::{ResponseColumns, StoredRow, Times, UnknownColumn};

/// Reads the columns of a key; `None` where there is no row.
pub(super) fn stored_row(row: &PgRow) -> Result<Option<StoredRow>, sqlx::Error> {
    let Some(fingerprint) = row.try_get::<Option<Vec<u8>>, _>("fingerprint")? else {
        return Ok(None);
    };
    let columns = ResponseColumns {
        status: row.try_get("status")?,
        headers: row.try_get("headers")?,
        body: row.try_get("body")?,
    };
    // Rounded so that nothing is over too early: the store statement compares exactly.
    let milliseconds = |until: i64| -(-until).div_euclid(1000);
    let times = Times {
        locked_until: microseconds(row, "locked_until")?.map(milliseconds),
        expires_at: microseconds(row, "expires_at")?.map_or(0, milliseconds),
        now: microseconds(row, "now")?.map_or(0, |now| now.div_euclid(1000)),
    };
    StoredRow::from_columns(
        fingerprint,
        row.try_get("state")?,
        token(row)?,
        times,
        columns,
    )
    .map(Some)
}

fn token(row: &PgRow) -> Result<Token, sqlx::Error> {
    Ok(Token {
        attempt: row.try_get("attempt")?,
        created: microseconds(row, "created")?.unwrap_or_default(),
    })
}

/// PostgreSQL counts from the year 2000.
const EPOCH: i64 = 946_684_800_000_000;

/// Reads a `timestamptz` as microseconds since the Unix epoch.
fn microseconds(row: &PgRow, column: &'static str) -> Result<Option<i64>, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    let bytes = value.as_bytes().map_err(sqlx::Error::Decode)?;
    let unknown = |_| sqlx::Error::Decode(Box::new(UnknownColumn(column)));
    let since_2000 = i64::from_be_bytes(bytes.try_into().map_err(unknown)?);
    Ok(Some(since_2000.saturating_add(EPOCH)))
}

pub(super) fn message_row(row: &PgRow) -> Result<MessageRow, sqlx::Error> {
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

/// Puts the values into a statement.
pub(super) fn bound(
    statement: &SqlStr,
    binds: &[Bind<'_>],
) -> Query<'static, Postgres, PgArguments> {
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
