//! The handle of the test application, on either database, and what its builder is told.

use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use idem_runtime::{Backend, Idempotency, Overrides, Seal, StoreError, StoreKeys, Sweeper};
use sqlx::{Pool as SqlxPool, Postgres, Sqlite};

use super::doors::{Doors, pass_doors};
use crate::database::Pool;
use crate::handlers::{self, AppState};
use crate::script::Script;

/// One call of the builder.
#[derive(Clone, Copy, Debug)]
pub enum Setting {
    /// Names the table of keys.
    KeysTable(&'static str),
    /// Names the table of steps.
    StepsTable(&'static str),
    /// Names the table of the outbox.
    OutboxTable(&'static str),
    /// Stores digests instead of keys.
    DigestKeys,
    /// Encrypts what is stored, with [`Reversed`].
    Seal,
    /// Renders problems as the text `refused: <type>`.
    PlainProblems,
    /// Overrides what the attribute of a scope says.
    Scope(&'static str, Overrides),
}

/// The handle, whatever its database.
#[derive(Clone, Debug)]
pub enum Handle {
    /// On PostgreSQL.
    Postgres(Idempotency<Postgres>),
    /// On SQLite.
    Sqlite(Idempotency<Sqlite>),
}

/// Calls a method of the handle, whatever its database.
macro_rules! on_handle {
    ($handle:expr, $name:ident => $call:expr) => {
        match $handle {
            Handle::Postgres($name) => $call,
            Handle::Sqlite($name) => $call,
        }
    };
}

impl Handle {
    /// Makes a handle.
    #[must_use]
    pub fn new(pool: &Pool, settings: &[Setting]) -> Self {
        match pool {
            Pool::Postgres(pool) => Self::Postgres(build(pool.clone(), settings)),
            Pool::Sqlite(pool) => Self::Sqlite(build(pool.clone(), settings)),
        }
    }

    /// Creates the library's tables.
    ///
    /// # Errors
    /// Those of [`Idempotency::migrate`].
    pub async fn migrate(&self) -> Result<(), StoreError> {
        on_handle!(self, handle => handle.migrate().await)
    }

    /// Returns the SQL of the migration.
    #[must_use]
    pub fn migration_sql(&self) -> String {
        on_handle!(self, handle => handle.migration_sql())
    }

    /// Removes expired keys.
    ///
    /// # Errors
    /// Those of [`Idempotency::sweep`].
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        on_handle!(self, handle => handle.sweep().await)
    }

    /// Sweeps in the background.
    pub fn spawn_sweeper(&self, period: Duration) -> Sweeper {
        on_handle!(self, handle => handle.spawn_sweeper(period))
    }

    /// Stops claiming and waits for what runs.
    pub async fn drain(&self, limit: Duration) -> bool {
        on_handle!(self, handle => handle.drain(limit).await)
    }

    /// Builds the router of the test application around this handle.
    pub fn router(&self, script: &Script, doors: &Doors) -> Router {
        let script = script.clone();
        let router = match self.clone() {
            Self::Postgres(idempotency) => handlers::postgres::router(AppState {
                idempotency,
                script,
            }),
            Self::Sqlite(idempotency) => handlers::sqlite::router(AppState {
                idempotency,
                script,
            }),
        };
        router.layer(from_fn_with_state(doors.clone(), pass_doors))
    }
}

fn build<DB: Backend>(pool: SqlxPool<DB>, settings: &[Setting]) -> Idempotency<DB> {
    let builder = settings.iter().fold(
        Idempotency::builder(pool),
        |builder, setting| match *setting {
            Setting::KeysTable(name) => builder.keys_table(name),
            Setting::StepsTable(name) => builder.steps_table(name),
            Setting::OutboxTable(name) => builder.outbox_table(name),
            Setting::DigestKeys => builder.store_keys(StoreKeys::Digest),
            Setting::Seal => builder.seal(Reversed),
            Setting::PlainProblems => builder.render_problem(|problem| {
                format!("refused: {}", problem.type_uri()).into_response()
            }),
            Setting::Scope(scope, overrides) => builder.scope(scope, overrides),
        },
    );
    builder.build().expect("settings that work")
}

pub(super) fn keys_table(setting: &Setting) -> Option<&'static str> {
    match setting {
        Setting::KeysTable(name) => Some(name),
        _ => None,
    }
}

/// Stands in for a cipher: reverses the bytes and binds the context to them. It panics at
/// [`UNSEALABLE`] and at [`UNREADABLE`].
#[derive(Debug)]
pub struct Reversed;

/// What [`Reversed`] panics at when it is to be sealed.
pub const UNSEALABLE: &str = "cannot be sealed";

/// What [`Reversed`] panics at when it is to be opened.
pub const UNREADABLE: &str = "cannot be opened";

type SealResult = Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;

impl Seal for Reversed {
    fn seal(&self, context: &[u8], plain: &[u8]) -> SealResult {
        assert_ne!(plain, UNSEALABLE.as_bytes(), "as the test wants");
        Ok([context, plain].concat().into_iter().rev().collect())
    }

    fn open(&self, context: &[u8], sealed: &[u8]) -> SealResult {
        let opened: Vec<u8> = sealed.iter().rev().copied().collect();
        let plain = opened
            .strip_prefix(context)
            .ok_or("sealed for another context")?;
        assert_ne!(plain, UNREADABLE.as_bytes(), "as the test wants");
        Ok(plain.to_vec())
    }
}
