//! A database for each test, and what a test asks it directly.

use std::env;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, PgPool, SqlitePool};
use tempfile::TempDir;

use crate::breaker::Breaker;
use crate::pgbouncer::PgBouncer;
use crate::proxy::Proxy;

/// Where a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A PostgreSQL database of its own.
    Postgres,
    /// A SQLite file of its own.
    Sqlite,
    /// A SQLite database in memory.
    SqliteInMemory,
}

impl Kind {
    /// Whether this is SQLite.
    #[must_use]
    pub fn is_sqlite(self) -> bool {
        self != Self::Postgres
    }
}

/// A database that is removed with this value, with the application's tables, without the library's.
#[derive(Debug)]
pub struct TestDatabase {
    kind: Kind,
    url: String,
    /// The test's own connections; in memory, the only one.
    pool: Pool,
    _folder: Option<TempDir>,
}

/// The tables of the application under test. `effects` has no constraint on purpose: an effect
/// that happens twice must show, not fail.
const EFFECTS: [&str; 2] = [
    "create table effects (id bigint generated always as identity primary key, \
     account text not null, label text not null)",
    "create table effects (id integer primary key, account text not null, label text not null)",
];
const OTHERS: &str = "create table marks (mark integer primary key); \
     create table deliveries (label text not null); \
     create table parents (id integer primary key); \
     create table children (parent integer not null \
     references parents (id) deferrable initially deferred)";

impl TestDatabase {
    /// Creates the database.
    ///
    /// # Panics
    /// When PostgreSQL is asked for and `IDEM_TEST_POSTGRES` does not say where it is.
    pub async fn create(kind: Kind) -> Self {
        let (url, folder) = match kind {
            Kind::Postgres => {
                let name = format!("idem_test_{}", uuid::Uuid::new_v4().simple());
                postgres(&format!("create database {name}")).await;
                (server().database(&name).to_url_lossy().to_string(), None)
            }
            Kind::Sqlite => {
                let folder = TempDir::new().expect("a temporary folder");
                (
                    format!("sqlite:{}", folder.path().join("test.db").display()),
                    Some(folder),
                )
            }
            Kind::SqliteInMemory => ("sqlite::memory:".to_owned(), None),
        };
        let size = if kind == Kind::SqliteInMemory { 1 } else { 2 };
        let pool = connect(kind, &url, size, Duration::from_secs(30)).await;
        pool.create_tables().await;
        Self {
            kind,
            url,
            pool,
            _folder: folder,
        }
    }

    /// Returns what kind of database this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the address under which another process finds the database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the test's own connections.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Connects with at most `size` connections; in memory there is only one.
    pub async fn connect(&self, size: u32, acquire_timeout: Duration) -> Pool {
        match self.kind {
            Kind::SqliteInMemory => self.pool.clone(),
            kind => connect(kind, &self.url, size, acquire_timeout).await,
        }
    }

    /// Counts the effects.
    pub async fn effects(&self) -> i64 {
        self.pool.number("select count(*) from effects").await
    }

    /// Counts the keys in the table of the default name.
    pub async fn keys(&self) -> i64 {
        self.pool
            .number("select count(*) from idempotency_keys")
            .await
    }

    /// Waits until no session has a transaction open, as when the server has noticed that a
    /// client is gone. SQLite has no sessions: the system has dropped the locks of the dead.
    ///
    /// # Panics
    /// When one stays open for two minutes.
    pub async fn until_no_transaction_is_open(&self) {
        let open = "select count(*) from pg_stat_activity where datname = current_database() \
                    and xact_start is not null and pid <> pg_backend_pid()";
        let deadline = Instant::now() + Duration::from_mins(2);
        while self.kind == Kind::Postgres && self.pool.number(open).await > 0 {
            assert!(Instant::now() < deadline, "a transaction stays open");
            tokio::task::yield_now().await;
        }
    }

    /// Connects by way of the proxy.
    ///
    /// # Panics
    /// When the database is not PostgreSQL.
    pub async fn connect_through(
        &self,
        proxy: &Proxy,
        size: u32,
        acquire_timeout: Duration,
    ) -> Pool {
        self.connect_to(proxy.port(), size, acquire_timeout).await
    }

    /// Connects by way of another port.
    ///
    /// # Panics
    /// When the database is not PostgreSQL.
    pub async fn connect_to(&self, port: u16, size: u32, acquire_timeout: Duration) -> Pool {
        let options = PgConnectOptions::from_str(&self.url).expect("a PostgreSQL address");
        let url = options.port(port).to_url_lossy().to_string();
        connect(self.kind, &url, size, acquire_timeout).await
    }

    /// Lays a line to the database's server that can be cut and mended.
    pub async fn breaker(&self) -> Breaker {
        let server = server();
        Breaker::start((server.get_host().to_owned(), server.get_port())).await
    }

    /// Starts a PgBouncer in front of the database's server, in this mode.
    pub async fn pgbouncer(&self, mode: &str) -> PgBouncer {
        PgBouncer::start(&server(), mode).await
    }

    /// Starts a proxy in front of the database's server.
    pub async fn proxy(&self) -> Proxy {
        let server = server();
        Proxy::start((server.get_host().to_owned(), server.get_port())).await
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.kind == Kind::Postgres {
            let options = PgConnectOptions::from_str(&self.url).expect("a PostgreSQL address");
            let name = options.get_database().expect("a database name").to_owned();
            let (done, removed) = mpsc::channel::<()>();
            // A thread of its own, since this may run inside a runtime or in none.
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = runtime.expect("a runtime");
                runtime.block_on(postgres(&format!("drop database {name} with (force)")));
                drop(done);
            });
            // PostgreSQL waits with it for whoever is about to log in anywhere, and that may be a
            // task of the very runtime whose thread waits here.
            let _ = removed.recv_timeout(Duration::from_secs(5));
        }
    }
}

fn server() -> PgConnectOptions {
    let url = env::var("IDEM_TEST_POSTGRES")
        .expect("IDEM_TEST_POSTGRES is not set: run scripts/test, which starts a PostgreSQL");
    PgConnectOptions::from_str(&url).expect("IDEM_TEST_POSTGRES is a PostgreSQL address")
}

/// Runs a statement on the server's own database.
async fn postgres(sql: &str) {
    let mut conn = server().connect().await.expect("PostgreSQL answers");
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut conn)
        .await
        .expect(sql);
}

/// Connects to a database with at most `size` connections.
///
/// # Panics
/// When it does not answer.
pub async fn connect(kind: Kind, url: &str, size: u32, acquire_timeout: Duration) -> Pool {
    if kind == Kind::Postgres {
        let pool = PgPoolOptions::new()
            .max_connections(size)
            .acquire_timeout(acquire_timeout);
        Pool::Postgres(pool.connect(url).await.expect("PostgreSQL answers"))
    } else {
        let options = SqliteConnectOptions::from_str(url).expect("a SQLite address");
        let pool = SqlitePoolOptions::new()
            .max_connections(size)
            .acquire_timeout(acquire_timeout);
        let options = options.create_if_missing(true);
        Pool::Sqlite(pool.connect_with(options).await.expect("SQLite opens"))
    }
}

/// Connections to either database.
#[derive(Clone, Debug)]
pub enum Pool {
    /// Connections to PostgreSQL.
    Postgres(PgPool),
    /// Connections to SQLite.
    Sqlite(SqlitePool),
}

impl Pool {
    /// Creates the application's tables.
    ///
    /// # Panics
    /// When they are there.
    pub async fn create_tables(&self) {
        let effects = EFFECTS[usize::from(matches!(self, Self::Sqlite(_)))];
        self.execute(effects).await;
        self.execute(OTHERS).await;
    }

    /// Runs statements.
    ///
    /// # Panics
    /// When one fails.
    pub async fn execute(&self, sql: &str) {
        match self {
            Self::Postgres(pool) => {
                sqlx::raw_sql(AssertSqlSafe(sql))
                    .execute(pool)
                    .await
                    .map(drop)
                    .expect(sql);
            }
            Self::Sqlite(pool) => {
                sqlx::raw_sql(AssertSqlSafe(sql))
                    .execute(pool)
                    .await
                    .map(drop)
                    .expect(sql);
            }
        }
    }

    /// Returns the one number that a query gives.
    ///
    /// # Panics
    /// When it fails.
    pub async fn number(&self, sql: &str) -> i64 {
        let sql_text = AssertSqlSafe(sql);
        match self {
            Self::Postgres(pool) => sqlx::query_scalar(sql_text)
                .fetch_one(pool)
                .await
                .expect(sql),
            Self::Sqlite(pool) => sqlx::query_scalar(sql_text)
                .fetch_one(pool)
                .await
                .expect(sql),
        }
    }

    /// Returns the one text that a query gives.
    ///
    /// # Panics
    /// When it fails.
    pub async fn text(&self, sql: &str) -> String {
        let sql_text = AssertSqlSafe(sql);
        match self {
            Self::Postgres(pool) => sqlx::query_scalar(sql_text)
                .fetch_one(pool)
                .await
                .expect(sql),
            Self::Sqlite(pool) => sqlx::query_scalar(sql_text)
                .fetch_one(pool)
                .await
                .expect(sql),
        }
    }

    /// Waits until every connection is back, as it is a moment after the answer.
    pub async fn until_idle(&self) {
        let idle = || match self {
            Self::Postgres(pool) => pool.num_idle() == pool.size() as usize,
            Self::Sqlite(pool) => pool.num_idle() == pool.size() as usize,
        };
        while !idle() {
            tokio::task::yield_now().await;
        }
    }

    /// Closes every connection; who asks for one from now on gets an error.
    pub async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pool) => pool.close().await,
        }
    }
}
