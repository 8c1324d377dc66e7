//! What the keys' table holds, whatever the database.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::lease::Token;
use crate::claim::{KeyRow, State, Timestamp};
use crate::fingerprint::Fingerprint;

/// The primary key of a row, as its columns hold it.
#[derive(Clone, Debug)]
pub struct KeyColumns {
    pub(crate) tenant: String,
    pub(crate) scope: Cow<'static, str>,
    pub(crate) key: String,
}

/// A row as the store returns it.
#[derive(Debug)]
pub struct StoredRow {
    pub(crate) row: KeyRow,
    /// The fence of the attempt that wrote it last.
    pub(crate) token: Token,
    /// The database's clock when the row was read.
    pub(crate) now: Timestamp,
    pub(crate) columns: ResponseColumns,
}

/// The columns of a kept response; all `None` for a tombstone.
#[derive(Debug, Default)]
pub(crate) struct ResponseColumns {
    pub(crate) status: Option<i16>,
    pub(crate) headers: Option<Vec<u8>>,
    pub(crate) body: Option<Vec<u8>>,
}

/// A finished key on its way into the store.
#[derive(Debug)]
pub struct Completion<'a> {
    pub(crate) key: &'a KeyColumns,
    pub(crate) fingerprint: &'a Fingerprint,
    pub(crate) columns: ResponseColumns,
    pub(crate) ttl: Duration,
    /// Whether the key has an expired row, which the finished one replaces.
    pub(crate) replaces: bool,
}

impl ResponseColumns {
    pub(crate) const fn state(&self) -> State {
        match self.status {
            Some(_) => State::Finished,
            None => State::Tombstone,
        }
    }
}

/// The state column.
impl State {
    pub(crate) const fn to_column(self) -> i16 {
        match self {
            Self::InProgress => 1,
            Self::Finished => 2,
            Self::Tombstone => 3,
            Self::Parked => 4,
        }
    }

    pub(crate) const fn from_column(column: i16) -> Option<Self> {
        match column {
            1 => Some(Self::InProgress),
            2 => Some(Self::Finished),
            3 => Some(Self::Tombstone),
            4 => Some(Self::Parked),
            _ => None,
        }
    }
}

/// A column that no version of this library wrote.
#[derive(Debug)]
pub(super) struct UnknownColumn(pub(super) &'static str);

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unexpected value in column `{}` of the idempotency table",
            self.0
        )
    }
}

impl std::error::Error for UnknownColumn {}

/// The times of a row.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) locked_until: Option<Timestamp>,
    pub(super) expires_at: Timestamp,
    pub(super) now: Timestamp,
}

impl StoredRow {
    /// Builds a row from its columns.
    pub(super) fn from_columns(
        fingerprint: Vec<u8>,
        state: i16,
        token: Token,
        times: Times,
        columns: ResponseColumns,
    ) -> Result<Self, sqlx::Error> {
        let unknown = |column| sqlx::Error::Decode(Box::new(UnknownColumn(column)));
        let fingerprint: [u8; 32] = fingerprint.try_into().map_err(|_| unknown("fingerprint"))?;
        let row = KeyRow {
            fingerprint: Fingerprint::from_bytes(fingerprint),
            state: State::from_column(state).ok_or_else(|| unknown("state"))?,
            locked_until: times.locked_until,
            expires_at: times.expires_at,
        };
        Ok(Self {
            row,
            token,
            now: times.now,
            columns,
        })
    }
}
