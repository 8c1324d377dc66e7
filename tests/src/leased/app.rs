//! The leased application: its handler is a closure of the test, on a database that several
//! applications may share.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use idem_runtime::{Backend, Idempotency, KeyStatus, Lease, Overrides, SettleError, Settlement};
use serde_json::Value;
use sqlx::{Postgres, Sqlite};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::any::AnyLease;
use super::order::{Order, STORED};
use crate::app::{Handle, Setting};
use crate::client;
use crate::database::{Pool, TestDatabase};
use crate::gate::Gate;

/// What a test changes of the application before it starts.
#[derive(Clone, Copy, Debug)]
pub struct LeasedSetup {
    /// How long a claim holds.
    pub lease: Duration,
    /// How long a duplicate waits.
    pub wait: Duration,
    /// How long a response is kept.
    pub ttl: Duration,
    /// The largest number of connections.
    pub pool_size: u32,
    /// What the builder of the handle is told beside that.
    pub settings: &'static [Setting],
}

impl Default for LeasedSetup {
    fn default() -> Self {
        Self {
            // Longer than any test: a lease ends when the test says so.
            lease: Duration::from_mins(5),
            wait: Duration::ZERO,
            ttl: Duration::from_hours(1),
            pool_size: 5,
            settings: &[],
        }
    }
}

type Run = Arc<dyn for<'l> Fn(AnyLease<'l>, &'l Value) -> BoxFuture<'l, Response> + Send + Sync>;

/// The handler of the moment.
#[derive(Clone)]
struct Handler(Arc<Mutex<Run>>);

impl Handler {
    async fn run(&self, lease: AnyLease<'_>, body: &Value) -> Response {
        let run = Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        run(lease, body).await
    }
}

struct AppState<DB: Backend> {
    idempotency: Idempotency<DB>,
    handler: Handler,
}

impl<DB: Backend> Clone for AppState<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            handler: self.handler.clone(),
        }
    }
}

struct Account(String);

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let token = parts.headers.get("authorization");
        let token = token.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let account = token.and_then(|token| token.split('/').next());
        account
            .map(|account| Self(account.to_owned()))
            .ok_or(StatusCode::UNAUTHORIZED)
    }
}

/// The scope of `POST /orders`, which resumes.
const RESUME: &str = "orders";
/// The scope of `POST /reconciled`, which parks.
const RECONCILE: &str = "orders.reconciled";

/// Stamps the same handlers onto a database.
macro_rules! stamp {
    ($module:ident, $database:ident) => {
        mod $module {
            use axum::extract::FromRef;
            use idem_runtime::idempotent;

            use super::*;

            impl FromRef<AppState<$database>> for Idempotency<$database> {
                fn from_ref(state: &AppState<$database>) -> Self {
                    state.idempotency.clone()
                }
            }

            type App = State<AppState<$database>>;

            #[idempotent(scope = RESUME, tenant = account.0)]
            async fn resume(
                account: Account,
                State(app): App,
                lease: &Lease<$database>,
                Json(body): Json<Value>,
            ) -> Response {
                app.handler.run(AnyLease::$database(lease), &body).await
            }

            #[idempotent(scope = RECONCILE, tenant = account.0, on_takeover = "reconcile")]
            async fn reconcile(
                account: Account,
                State(app): App,
                lease: &Lease<$database>,
                Json(body): Json<Value>,
            ) -> Response {
                app.handler.run(AnyLease::$database(lease), &body).await
            }

            pub(super) fn router(idempotency: Idempotency<$database>, handler: Handler) -> Router {
                Router::new()
                    .route("/orders", any(resume))
                    .route("/reconciled", any(reconcile))
                    .with_state(AppState {
                        idempotency,
                        handler,
                    })
            }
        }
    };
}

stamp!(postgres, Postgres);
stamp!(sqlite, Sqlite);

fn router(handle: &Handle, handler: Handler) -> Router {
    match handle.clone() {
        Handle::Postgres(idempotency) => postgres::router(idempotency, handler),
        Handle::Sqlite(idempotency) => sqlite::router(idempotency, handler),
    }
}

/// A handle on a pool with this setup.
async fn handle(pool: &Pool, setup: LeasedSetup) -> Handle {
    let overrides = Overrides::new()
        .lease(setup.lease)
        .wait(setup.wait)
        .ttl(setup.ttl);
    let mut settings = vec![
        Setting::Scope(RESUME, overrides),
        Setting::Scope(RECONCILE, overrides),
    ];
    settings.extend(setup.settings);
    let handle = Handle::new(pool, &settings);
    handle.migrate().await.expect("the tables are created");
    handle
}

fn handler_of(order: Order) -> Handler {
    Handler(Arc::new(Mutex::new(Arc::new(
        move |lease, body: &Value| {
            let (order, card) = (order.clone(), body["card"].as_str().unwrap_or("card_ok"));
            async move { order.run(lease, card).await }.boxed()
        },
    ))))
}

/// The routes of an order on a pool, for a process of its own.
pub async fn serve(pool: &Pool, setup: LeasedSetup, order: Order) -> Router {
    let stored = order.gates.at(STORED).clone();
    let leave = async |State(stored): State<Gate>, request: Request, next: Next| {
        let answer = next.run(request).await;
        stored.pass().await;
        answer
    };
    let router = router(&handle(pool, setup).await, handler_of(order));
    router.layer(from_fn_with_state(stored, leave))
}

/// A leased application that serves on a socket.
pub struct LeasedApp {
    /// The handle of the handlers.
    pub handle: Handle,
    /// The order that the handlers run, until the test gives another handler.
    pub order: Order,
    address: SocketAddr,
    handler: Handler,
    client: reqwest::Client,
    server: AbortHandle,
}

impl LeasedApp {
    /// Starts an application with the default setup.
    pub async fn start(database: &TestDatabase) -> Self {
        Self::with(database, LeasedSetup::default()).await
    }

    /// Starts an application.
    pub async fn with(database: &TestDatabase, setup: LeasedSetup) -> Self {
        let pool = database
            .connect(setup.pool_size, Duration::from_secs(10))
            .await;
        Self::on(&pool, setup, Order::default()).await
    }

    /// Starts an application on connections that the test has made.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn on(pool: &Pool, setup: LeasedSetup, order: Order) -> Self {
        let handle = handle(pool, setup).await;
        let handler = handler_of(order.clone());
        let router = router(&handle, handler.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            handle,
            order,
            address,
            handler,
            client: crate::app::client(),
            server: server.abort_handle(),
        }
    }

    /// Makes the handlers do this from now on.
    pub fn handler(
        &self,
        run: impl for<'l> Fn(AnyLease<'l>) -> BoxFuture<'l, Response> + Send + Sync + 'static,
    ) {
        let run: Run = Arc::new(move |lease, _| run(lease));
        *self
            .handler
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = run;
    }

    /// Begins an order with this key, which a take-over resumes.
    pub fn order(&self, key: &str) -> client::Request {
        self.order_with(key, "card_ok")
    }

    /// Begins an order with another body.
    pub fn order_with(&self, key: &str, card: &str) -> client::Request {
        self.post("/orders", key, card)
    }

    /// Begins an order with this key, which a take-over parks when a step has begun.
    pub fn reconciled(&self, key: &str) -> client::Request {
        self.post("/reconciled", key, "card_ok")
    }

    /// Begins an order by a safe method, which needs no key.
    pub fn order_without_key(&self) -> client::Request {
        self.request(Method::GET, "/orders", "card_ok")
    }

    /// Begins an order by a safe method, which a take-over would park.
    pub fn reconciled_without_key(&self) -> client::Request {
        self.request(Method::GET, "/reconciled", "card_ok")
    }

    fn post(&self, path: &str, key: &str, card: &str) -> client::Request {
        self.request(Method::POST, path, card).key(key)
    }

    fn request(&self, method: Method, path: &str, card: &str) -> client::Request {
        let url = format!("http://{}{path}", self.address);
        let request = client::Request::new(&self.client, method, url);
        request.json(serde_json::json!({ "card": card }).to_string())
    }

    /// Looks at alice's key as an operator does.
    ///
    /// # Panics
    /// When the store fails, or there is no such key.
    pub async fn find(&self, key: &str) -> KeyStatus {
        self.find_of("alice", key).await
    }

    /// Looks at anybody's key.
    ///
    /// # Panics
    /// When the store fails, or there is no such key.
    pub async fn find_of(&self, account: &str, key: &str) -> KeyStatus {
        let found = self.lookup(RESUME, account, key).await;
        found.expect("the key is there")
    }

    /// Looks at alice's key of the reconciled orders.
    ///
    /// # Panics
    /// When the store fails, or there is no such key.
    pub async fn find_reconciled(&self, key: &str) -> KeyStatus {
        let found = self.lookup(RECONCILE, "alice", key).await;
        found.expect("the key is there")
    }

    /// Looks at alice's key, which may not be there.
    ///
    /// # Panics
    /// When the store fails.
    pub async fn find_if_any(&self, key: &str) -> Option<KeyStatus> {
        self.lookup(RESUME, "alice", key).await
    }

    async fn lookup(&self, scope: &str, account: &str, key: &str) -> Option<KeyStatus> {
        let found = match &self.handle {
            Handle::Postgres(handle) => handle.find(scope, account, key).await,
            Handle::Sqlite(handle) => handle.find(scope, account, key).await,
        };
        found.expect("the store answers")
    }

    /// Finishes alice's key of the reconciled orders by an operator's word.
    ///
    /// # Errors
    /// Those of [`Idempotency::complete`].
    pub async fn complete(&self, key: &str, body: &'static str) -> Result<(), SettleError> {
        self.complete_with(key, body, word()).await
    }

    /// Finishes alice's key of the reconciled orders with any response and settlement.
    ///
    /// # Errors
    /// Those of [`Idempotency::complete`].
    pub async fn complete_with(
        &self,
        key: &str,
        response: impl IntoResponse,
        word: Settlement,
    ) -> Result<(), SettleError> {
        match &self.handle {
            Handle::Postgres(handle) => {
                let complete = handle.complete(RECONCILE, "alice", key, response, word);
                complete.await
            }
            Handle::Sqlite(handle) => {
                let complete = handle.complete(RECONCILE, "alice", key, response, word);
                complete.await
            }
        }
    }

    /// Frees alice's key of the reconciled orders by an operator's word.
    ///
    /// # Errors
    /// Those of [`Idempotency::release`].
    pub async fn release(&self, key: &str) -> Result<(), SettleError> {
        match &self.handle {
            Handle::Postgres(handle) => handle.release(RECONCILE, "alice", key, word()).await,
            Handle::Sqlite(handle) => handle.release(RECONCILE, "alice", key, word()).await,
        }
    }
}

fn word() -> Settlement {
    Settlement::new("olga", "the provider's list says so")
}

impl fmt::Debug for LeasedApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedApp")
            .field("handle", &self.handle)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for LeasedApp {
    fn drop(&mut self) {
        self.server.abort();
    }
}
