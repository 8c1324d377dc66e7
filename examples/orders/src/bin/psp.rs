//! A payment provider to try the orders against. It charges once per `Idempotency-Key`, with the
//! attribute of its clients; the card decides what the network does to the answer.
//! `cargo run -p example-orders --bin psp` keeps its data in `psp.db`.

use std::{env, error::Error, panic::resume_unwind, time::Duration};

use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router, routing::get};
use idem_runtime::{Claim, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{Sqlite, SqlitePool};
use tokio::{net::TcpListener, time::sleep};
use uuid::Uuid;

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
    pool: SqlitePool,
}

#[derive(Deserialize)]
struct NewCharge {
    amount: i64,
    card: Card,
}

#[derive(Clone, Copy, Deserialize)]
enum Card {
    #[serde(rename = "card_ok")]
    Ok,
    /// Charges at once and answers late.
    #[serde(rename = "card_slow")]
    Slow,
    /// Charges and does not answer, the first time for each key.
    #[serde(rename = "card_drop")]
    Drop,
    #[serde(rename = "card_down")]
    Down,
    /// `card_declined`, and whatever is no card.
    #[serde(other)]
    Declined,
}

#[derive(Serialize, sqlx::FromRow)]
struct Charge {
    id: String,
    amount: i64,
    idempotency_key: String,
}

#[idempotent(scope = "charges.create", tenant = shared, ttl = "7d")]
async fn create_charge(
    tx: &mut SqliteConnection,
    claim: &Claim,
    Json(NewCharge { amount, card }): Json<NewCharge>,
) -> Result<impl IntoResponse, StatusCode> {
    match card {
        Card::Down => return Err(StatusCode::SERVICE_UNAVAILABLE),
        Card::Declined => return Err(StatusCode::PAYMENT_REQUIRED),
        Card::Ok | Card::Slow | Card::Drop => {}
    }
    let sql = "insert into charges (id, amount, idempotency_key) values ($1, $2, $3) returning *";
    let charge: Charge = sqlx::query_as(sql)
        .bind(format!("ch_{}", Uuid::new_v4().simple()))
        .bind(amount)
        .bind(claim.key())
        .fetch_one(tx)
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok((StatusCode::CREATED, Extension(card), Json(charge)))
}

/// What may happen to an answer on its way, after the charge is committed. Only the first answer
/// for a key says which card it was: a replay has no extensions.
async fn network(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    match response.extensions().get() {
        Some(Card::Slow) => sleep(Duration::from_secs(2)).await,
        // Ends the connection's task, and the connection with it.
        Some(Card::Drop) => resume_unwind(Box::new("the connection drops")),
        _ => {}
    }
    response
}

async fn list_charges(State(pool): State<SqlitePool>) -> Result<Json<Vec<Charge>>, StatusCode> {
    let query = sqlx::query_as("select * from charges order by rowid");
    let charges = query.fetch_all(&pool).await;
    Ok(Json(charges.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = env::var("DATABASE_URL").unwrap_or("sqlite:psp.db".into());
    let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
    let pool = SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await?;
    let schema = "create table if not exists charges (id text primary key, \
                  amount integer not null, idempotency_key text not null)";
    sqlx::raw_sql(schema).execute(&pool).await?;
    let idempotency = Idempotency::new(pool.clone());
    idempotency.migrate().await?;

    let router = Router::new()
        .route("/charges", get(list_charges).post(create_charge))
        .layer(from_fn(network))
        .with_state(App { idempotency, pool });
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:4000".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
