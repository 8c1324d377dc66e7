//! An order whose `POST /orders` can be retried, although the card is charged somewhere else.
//! `cargo run -p example-orders --bin psp` is the payment provider; then `cargo run -p
//! example-orders` keeps its data in `orders.db`.

mod api;
mod orders;
mod provider;

use std::{env, error::Error, net::SocketAddr, time::Duration};

use api::{Account, ApiError, Body};
use axum::extract::{FromRef, Path, State};
use axum::{Json, Router, http::StatusCode, response::IntoResponse, routing::get};
use idem_runtime::{Idempotency, Lease, Overrides, idempotent};
use orders::{NewOrder, Order, Stock};
use provider::{Charge, Provider};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Sqlite, SqlitePool};
use tokio::net::TcpListener;
use tokio::signal::{ctrl_c, unix::SignalKind, unix::signal};

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
    pool: SqlitePool,
    provider: Provider,
}

/// Each step runs once for the key. When this process dies, the retry goes on after the steps that
/// are recorded, and asks the provider again under the same derived key.
#[idempotent(scope = "orders.create", tenant = account.id, ttl = "24h", lease = "30s")]
async fn create_order(
    account: Account,
    State(provider): State<Provider>,
    lease: &Lease<Sqlite>,
    Body(order): Body<NewOrder>,
) -> Result<impl IntoResponse, ApiError> {
    // The stock and the record of the step commit together, or not at all.
    let id = lease
        .transaction("reserve", async |tx| {
            orders::reserve(tx, account.id, &order).await
        })
        .await?;

    // What is outside the database is recorded when it is done. A refusal is an answer, too.
    let key = lease.derive_key("charge");
    let charge = lease
        .step("charge", async || {
            provider.charge(key, order.amount, &order.card).await
        })
        .await?;

    let Charge::Made { id: charge_id } = charge else {
        lease
            .transaction("cancel", async |tx| orders::cancel(tx, id, &order).await)
            .await?;
        return Err(ApiError(StatusCode::PAYMENT_REQUIRED, "declined"));
    };
    let order = lease
        .transaction("confirm", async |tx| {
            orders::confirm(tx, id, &charge_id).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(order)))
}

async fn list_orders(
    account: Account,
    State(pool): State<SqlitePool>,
) -> Result<Json<Vec<Order>>, ApiError> {
    Ok(Json(orders::list(&pool, account.id).await?))
}

async fn get_stock(
    State(pool): State<SqlitePool>,
    Path(sku): Path<String>,
) -> Result<Json<Stock>, ApiError> {
    Ok(Json(orders::stock(&pool, sku).await?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = env::var("DATABASE_URL").unwrap_or("sqlite:orders.db".into());
    let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
    let pool = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await?;
    sqlx::raw_sql(orders::SCHEMA).execute(&pool).await?;
    let idempotency = Idempotency::builder(pool.clone())
        .scope("orders.create", overrides()?)
        .build()?;
    idempotency.migrate().await?;
    let sweeper = idempotency.spawn_sweeper(Duration::from_mins(1));

    let app = App {
        idempotency: idempotency.clone(),
        pool,
        provider: Provider::new(env::var("PSP_URL").unwrap_or("http://127.0.0.1:4000".into()))?,
    };
    let router = Router::new()
        .route("/orders", get(list_orders).post(create_order))
        .route("/stock/{sku}", get(get_stock))
        .with_state(app);
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    print_request_to_try(listener.local_addr()?);
    let server = axum::serve(listener, router).with_graceful_shutdown(asked_to_stop());
    tokio::select! { done = server.into_future() => done?, () = stopped_long_ago() => {} }

    // Handlers whose client has left finish too.
    idempotency.drain(Duration::from_secs(30)).await;
    sweeper.stop().await;
    Ok(())
}

fn print_request_to_try(address: SocketAddr) {
    println!(
        "listening on http://{address}; try an order, its retry, and other keys with the cards \
         card_slow, card_drop, card_down, and card_declined:\n\
         curl -i http://{address}/orders -H 'idempotency-key: 1' \
         -H 'authorization: Bearer alice-token' -H 'content-type: application/json' \
         -d '{{\"sku\": \"sku-1\", \"quantity\": 1, \"amount\": 900, \"card\": \"card_ok\"}}'"
    );
}

/// `LEASE=2s` shortens the lease, so that a take-over can be watched.
fn overrides() -> Result<Overrides, humantime::DurationError> {
    Ok(match env::var("LEASE") {
        Ok(lease) => Overrides::new().lease(humantime::parse_duration(&lease)?),
        Err(_) => Overrides::new(),
    })
}

async fn asked_to_stop() {
    let mut terminate = signal(SignalKind::terminate()).expect("a handler for SIGTERM");
    tokio::select! { _ = ctrl_c() => {}, _ = terminate.recv() => {} }
}

/// A client that has sent half a request does not hold up the stop for longer.
async fn stopped_long_ago() {
    asked_to_stop().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
}
