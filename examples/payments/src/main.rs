//! A payments API whose `POST /payments` can be retried without paying twice.
//! `cargo run -p example-payments` keeps its data in `payments.db`.

use std::{env, error::Error, time::Duration};

use axum::extract::{FromRef, FromRequestParts, Path, State};
use axum::http::{StatusCode, header, request::Parts};
use axum::response::IntoResponse;
use axum::{Json, Router, routing::get};
use idem_runtime::{Idempotency, idempotent};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{Sqlite, SqlitePool};
use tokio::net::TcpListener;
use tokio::signal::{ctrl_c, unix::SignalKind, unix::signal};

mod stage;

use stage::{ApiError, Body};

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
    pool: SqlitePool,
}

#[idempotent(scope = "payments.create", tenant = account.id, ttl = "24h")]
async fn create_payment(
    account: Account,
    tx: &mut SqliteConnection,
    Body(payment): Body<CreatePayment>,
) -> Result<impl IntoResponse, ApiError> {
    let sql = "insert into payments (account, amount, currency, source) \
               values ($1, $2, $3, $4) returning id";
    let id: i64 = sqlx::query_scalar(sql)
        .bind(account.id)
        .bind(payment.amount)
        .bind(&payment.currency)
        .bind(&payment.source)
        .fetch_one(tx)
        .await?;
    // An error takes the row back with it.
    stage::authorize(&payment.source).await?;
    let location = [(header::LOCATION, format!("/payments/{id}"))];
    Ok((StatusCode::CREATED, location, Json(Payment { id, payment })))
}

async fn list_payments(
    account: Account,
    State(pool): State<SqlitePool>,
) -> Result<Json<Vec<Payment>>, ApiError> {
    let query = sqlx::query_as("select * from payments where account = $1 order by id");
    Ok(Json(query.bind(account.id).fetch_all(&pool).await?))
}

async fn get_payment(
    account: Account,
    State(pool): State<SqlitePool>,
    Path(id): Path<i64>,
) -> Result<Json<Payment>, ApiError> {
    let query = sqlx::query_as("select * from payments where account = $1 and id = $2");
    let query = query.bind(account.id).bind(id);
    let payment = query.fetch_optional(&pool).await?;
    let missing = ApiError(StatusCode::NOT_FOUND, "no such payment");
    Ok(Json(payment.ok_or(missing)?))
}

#[derive(Serialize, sqlx::FromRow)]
struct Payment {
    id: i64,
    #[serde(flatten)]
    #[sqlx(flatten)]
    payment: CreatePayment,
}

#[derive(Serialize, Deserialize, sqlx::FromRow)]
struct CreatePayment {
    #[serde(deserialize_with = "positive")]
    amount: i64,
    currency: String,
    source: String,
}

fn positive<'de, D: Deserializer<'de>>(number: D) -> Result<i64, D::Error> {
    match i64::deserialize(number)? {
        positive @ 1.. => Ok(positive),
        _ => Err(D::Error::custom("not above zero")),
    }
}

/// Who asks. As an extractor it runs before a replay too.
struct Account {
    id: &'static str,
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let id = match parts.headers.get(header::AUTHORIZATION) {
            Some(token) if token == "Bearer alice-token" => "alice",
            Some(token) if token == "Bearer bob-token" => "bob",
            _ => return Err(ApiError(StatusCode::UNAUTHORIZED, "unknown token")),
        };
        Ok(Self { id })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = env::var("DATABASE_URL").unwrap_or("sqlite:payments.db".into());
    let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
    let pool = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await?;
    let schema = "create table if not exists payments (id integer primary key, account text not null, \
                  amount integer not null, currency text not null, source text not null)";
    sqlx::raw_sql(schema).execute(&pool).await?;
    let idempotency = Idempotency::new(pool.clone());
    idempotency.migrate().await?;
    let sweeper = idempotency.spawn_sweeper(Duration::from_mins(1));

    let app = App {
        idempotency: idempotency.clone(),
        pool,
    };
    let router = Router::new()
        .route("/payments", get(list_payments).post(create_payment))
        .route("/payments/{id}", get(get_payment))
        .with_state(app);
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    stage::print_requests_to_try(listener.local_addr()?);
    let server = axum::serve(listener, router).with_graceful_shutdown(asked_to_stop());
    tokio::select! { done = server.into_future() => done?, () = stopped_long_ago() => {} }

    // Handlers whose client has left finish too.
    idempotency.drain(Duration::from_secs(30)).await;
    sweeper.stop().await;
    Ok(())
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
