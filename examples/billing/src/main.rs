//! An order service, and billing that hears of each paid order and writes one invoice for it.
//!
//! `cargo run -p example-billing` sends every order twice, kills the worker (relay and consumer) again
//! and again meanwhile, and counts what is left. It needs no broker; with `NATS_URL` the messages go
//! through NATS JetStream. The data is in `billing.db`, or where `DATABASE_URL` says. The parts alone:
//! `cargo run -p example-billing serve` and, any number of times, `cargo run -p example-billing work`.

mod load;
mod nats;

use std::env;
use std::error::Error;
use std::time::Duration;

use axum::extract::FromRef;
use axum::http::StatusCode;
use axum::{Json, Router, routing::post};
use idem_runtime::outbox::{self, Delivery, JetStream, Message, Relay, Sink, in_process};
use idem_runtime::{Idempotency, OnceError, Outcome, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

type Failure = Box<dyn Error + Send + Sync>;

/// What orders tells, and billing hears.
#[derive(Serialize, Deserialize)]
struct OrderPaid {
    order: i64,
    amount: i64,
}

#[derive(Deserialize)]
struct NewOrder {
    amount: i64,
}

/// The order, the message about it, and the key are in one transaction: all or none.
#[idempotent(scope = "orders.create", tenant = shared, wait = "5s")]
async fn create_order(
    tx: &mut SqliteConnection,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, String), StatusCode> {
    create(tx, order).await.map_err(|error| {
        tracing::error!(%error, "no order");
        StatusCode::INTERNAL_SERVER_ERROR
    })
}

async fn create(tx: &mut SqliteConnection, new: NewOrder) -> Result<(StatusCode, String), Failure> {
    let order: i64 = sqlx::query_scalar("insert into orders (amount) values ($1) returning id")
        .bind(new.amount)
        .fetch_one(&mut *tx)
        .await?;
    let amount = new.amount;
    let paid = OrderPaid { order, amount };
    let message = Message::json("order.paid", order.to_string(), &paid)?;
    outbox::publish(tx, message).await?;
    Ok((StatusCode::CREATED, order.to_string()))
}

/// The invoice and the key are in one transaction: a repeated delivery finds the key.
#[idempotent(message, scope = "billing.order-paid", tenant = "orders", key = event.order, ttl = "14d")]
async fn on_order_paid(tx: &mut SqliteConnection, event: OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query("insert into invoices (order_id, amount) values ($1, $2)")
        .bind(event.order)
        .bind(event.amount)
        .execute(tx)
        .await
        .map(drop)
}

/// What becomes of a delivery.
enum Fate {
    Acknowledged,
    /// It comes again.
    Left,
    /// It would only end the same way again.
    SetAside,
}

/// Consumes a message.
async fn consume(app: &App, payload: &[u8]) -> Fate {
    let event = match serde_json::from_slice(payload) {
        Ok(event) => event,
        Err(error) => {
            tracing::error!(%error, "no message of ours");
            return Fate::SetAside;
        }
    };
    match on_order_paid(&app.idempotency, event).await {
        Ok(Outcome::Executed(()) | Outcome::Replayed(())) | Err(OnceError::NotKept) => {
            Fate::Acknowledged
        }
        Err(error @ (OnceError::Mismatch | OnceError::InvalidRequest(_))) => {
            tracing::error!(%error, "never to be consumed");
            Fate::SetAside
        }
        Err(error) => {
            tracing::warn!(%error, "not consumed");
            Fate::Left
        }
    }
}

/// The relay, and the consumer on the other side of the sink.
async fn work(app: &App) -> Result<(), Failure> {
    if let Ok(url) = env::var("NATS_URL") {
        let broker = nats::connect(&url).await?;
        let consumer = nats::consume(app, &broker);
        return relay_beside(app, JetStream::new(broker.clone()), consumer).await;
    }
    let (sink, mut deliveries) = in_process(16);
    let consumer = async move {
        while let Some(delivery) = deliveries.recv().await {
            take(app, delivery).await;
        }
        Ok(())
    };
    relay_beside(app, sink, consumer).await
}

/// What is not acknowledged comes again, and is a dead letter of the outbox in the end.
async fn take(app: &App, delivery: Delivery) {
    if let Fate::Acknowledged = consume(app, &delivery.envelope.message.payload).await {
        delivery.acknowledge();
    }
}

/// Runs the relay beside its consumer, until the process is interrupted.
async fn relay_beside(
    app: &App,
    sink: impl Sink,
    consumer: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    // A short lease: what a killed worker has left is soon another's.
    let relay = Relay::new(&app.idempotency, sink)
        .lease(Duration::from_secs(2))
        .poll(Duration::from_millis(50))
        .spawn();
    let done = tokio::select! {
        done = consumer => done,
        interrupted = ctrl_c() => Ok(interrupted?),
    };
    relay.stop().await;
    done
}

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
    pool: SqlitePool,
}

/// Nothing but the keys makes the invoices one for each order: a second one must show.
const SCHEMA: &str = "\
create table if not exists orders (id integer primary key, amount integer not null); \
create table if not exists invoices (id integer primary key, order_id integer not null, \
amount integer not null)";

impl App {
    async fn open() -> Result<Self, Failure> {
        let url = env::var("DATABASE_URL").unwrap_or("sqlite:billing.db".into());
        let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
        let pool = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        let idempotency = Idempotency::new(pool.clone());
        idempotency.migrate().await?;
        Ok(Self { idempotency, pool })
    }
}

async fn serve(app: App, listener: TcpListener) -> Result<(), Failure> {
    let router = Router::new().route("/orders", post(create_order));
    Ok(axum::serve(listener, router.with_state(app)).await?)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let app = App::open().await?;
    match env::args().nth(1).as_deref() {
        None => load::run(app).await,
        Some("work") => work(&app).await,
        Some("serve") => {
            let address = env::var("LISTEN").unwrap_or("127.0.0.1:3000".into());
            let listener = TcpListener::bind(address).await?;
            println!("listening on http://{}", listener.local_addr()?);
            serve(app, listener).await
        }
        Some(other) => Err(format!("no command {other:?}: `serve`, `work`, or none").into()),
    }
}
