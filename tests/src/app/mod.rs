//! The test application: handlers, a database, a server, and what a test may do with them.

mod doors;
mod handle;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Method;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use self::handle::keys_table;
use crate::client::Request;
use crate::database::{Kind, Pool, TestDatabase};
use crate::pgbouncer::PgBouncer;
use crate::proxy::Proxy;
use crate::script::Script;

pub use self::doors::Doors;
pub use self::handle::{Handle, Reversed, Setting, UNREADABLE, UNSEALABLE};

/// What a test changes of the application before it starts.
#[derive(Debug)]
pub struct Setup {
    /// The largest number of connections.
    pub pool_size: u32,
    /// How long the pool lets a caller wait for a connection.
    pub acquire_timeout: Duration,
    /// What the builder is told.
    pub settings: Vec<Setting>,
    /// Whether the library's tables are created.
    pub migrate: bool,
    /// Layers around the router.
    pub layers: fn(Router) -> Router,
    /// Whether the connections go through a [`Proxy`]; for PostgreSQL.
    pub proxy: bool,
    /// The mode of the [`PgBouncer`] that the connections go through, if they do.
    pub pgbouncer: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            pool_size: 5,
            acquire_timeout: Duration::from_secs(10),
            settings: Vec::new(),
            migrate: true,
            layers: |router| router,
            proxy: false,
            pgbouncer: None,
        }
    }
}

/// An application that serves on a socket, on a database of its own.
#[derive(Debug)]
pub struct TestApp {
    /// The database it runs on.
    pub kind: Kind,
    /// What its handlers do.
    pub script: Script,
    /// What a test does between the handlers and the client.
    pub doors: Doors,
    /// The handle of the handlers.
    pub handle: Handle,
    /// The application's connections.
    pub pool: Pool,
    /// Connections of the test's own; in memory, the application's.
    pub database: Pool,
    /// What stands between the application and its database, if the setup asks for it.
    pub proxy: Option<Proxy>,
    /// Where it serves.
    pub address: SocketAddr,
    keys_table: &'static str,
    client: reqwest::Client,
    server: AbortHandle,
    _pgbouncer: Option<PgBouncer>,
    // The last field: the server goes before its database.
    owned: Arc<TestDatabase>,
}

impl TestApp {
    /// Starts an application with the default setup.
    pub async fn start(kind: Kind) -> Self {
        Self::with(kind, Setup::default()).await
    }

    /// Starts an application.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn with(kind: Kind, setup: Setup) -> Self {
        Self::on(Arc::new(TestDatabase::create(kind).await), setup).await
    }

    /// Starts another application on the database of this one, as another process is.
    pub async fn beside(&self) -> Self {
        Self::on(Arc::clone(&self.owned), Setup::default()).await
    }

    async fn on(owned: Arc<TestDatabase>, setup: Setup) -> Self {
        let kind = owned.kind();
        let size = setup.pool_size;
        let proxy = if setup.proxy {
            Some(owned.proxy().await)
        } else {
            None
        };
        let pgbouncer = match setup.pgbouncer {
            Some(mode) => Some(owned.pgbouncer(mode).await),
            None => None,
        };
        let wait = setup.acquire_timeout;
        let pool = match (&proxy, &pgbouncer) {
            (Some(proxy), _) => owned.connect_through(proxy, size, wait).await,
            (_, Some(pgbouncer)) => owned.connect_to(pgbouncer.port(), size, wait).await,
            (None, None) => owned.connect(size, wait).await,
        };
        let database = owned.pool().clone();
        let handle = Handle::new(&pool, &setup.settings);
        if setup.migrate {
            handle.migrate().await.expect("the tables are created");
        }
        let (script, doors) = (Script::default(), Doors::default());
        let router = (setup.layers)(handle.router(&script, &doors));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            kind,
            script,
            doors,
            handle,
            pool,
            database,
            proxy,
            address,
            keys_table: setup
                .settings
                .iter()
                .find_map(keys_table)
                .unwrap_or("idempotency_keys"),
            client: client(),
            server: server.abort_handle(),
            _pgbouncer: pgbouncer,
            owned,
        }
    }

    /// Begins a POST.
    pub fn post(&self, path: &str) -> Request {
        self.request(Method::POST, path)
    }

    /// Begins a request.
    pub fn request(&self, method: Method, path: &str) -> Request {
        Request::new(
            &self.client,
            method,
            format!("http://{}{path}", self.address),
        )
    }

    /// Counts the effects in the database.
    pub async fn effects(&self) -> i64 {
        self.database.number("select count(*) from effects").await
    }

    /// Counts the keys in the database.
    pub async fn keys(&self) -> i64 {
        self.database
            .number(&format!("select count(*) from {}", self.keys_table))
            .await
    }

    /// Makes every stored key expire a moment ago.
    pub async fn expire_keys(&self) {
        let earlier = if self.kind.is_sqlite() {
            "0"
        } else {
            "now() - interval '1 second'"
        };
        let table = self.keys_table;
        self.database
            .execute(&format!("update {table} set expires_at = {earlier}"))
            .await;
    }

    /// Waits until no session has a transaction open.
    pub async fn until_no_transaction_is_open(&self) {
        self.owned.until_no_transaction_is_open().await;
    }

    /// Makes the application connect anew; on PostgreSQL.
    pub async fn end_sessions(&self) {
        self.database
            .execute(
                "select pg_terminate_backend(pid) from pg_stat_activity \
                 where datname = current_database() and pid <> pg_backend_pid()",
            )
            .await;
    }

    /// Asserts that neither an effect nor a key is in the database.
    ///
    /// # Panics
    /// When there is one.
    pub async fn assert_untouched(&self) {
        assert_eq!(
            (self.effects().await, self.keys().await),
            (0, 0),
            "effects and keys"
        );
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A client that follows nothing and decodes nothing.
///
/// # Panics
/// When there can be none.
#[must_use]
pub fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    builder.build().expect("a client")
}

/// A body that arrives in many chunks.
pub fn in_chunks(body: &Bytes, size: usize) -> reqwest::Body {
    let chunks: Vec<_> = body
        .chunks(size)
        .map(Bytes::copy_from_slice)
        .map(Ok::<_, std::io::Error>)
        .collect();
    reqwest::Body::wrap_stream(futures_util::stream::iter(chunks))
}
