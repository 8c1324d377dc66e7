//! The same application on SQLite.

use std::str::FromStr;

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use idem_runtime::{Idempotency, idempotent};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

use crate::Failure;
use crate::load::Keys;
use crate::payments::{Account, ApiError, CreatePayment, Payment};
use crate::report;
use crate::rounds::{Contender, Effort, alternate};
use crate::serve::{Database, Server};

async fn pay(
    tx: &mut SqliteConnection,
    account: &Account,
    payment: &CreatePayment,
) -> Result<Payment, sqlx::Error> {
    let id = sqlx::query_scalar(
        "insert into payments (account, amount, currency) values ($1, $2, $3) returning id",
    )
    .bind(account.0)
    .bind(payment.amount)
    .bind(&payment.currency)
    .fetch_one(tx)
    .await?;
    Ok(Payment {
        id,
        account: account.0,
        amount: payment.amount,
        currency: payment.currency.clone(),
    })
}

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
}

#[idempotent(scope = "payments.create", tenant = account.0)]
async fn atomic(
    account: Account,
    tx: &mut SqliteConnection,
    Json(payment): Json<CreatePayment>,
) -> Result<(StatusCode, Json<Payment>), ApiError> {
    Ok((
        StatusCode::CREATED,
        Json(pay(tx, &account, &payment).await?),
    ))
}

/// The application behind idem.
///
/// # Errors
/// When the tables cannot be made.
pub async fn with_idem(pool: SqlitePool) -> Result<Router, Failure> {
    let idempotency = Idempotency::new(pool);
    idempotency.migrate().await?;
    Ok(Router::new()
        .route("/payments", post(atomic))
        .with_state(App { idempotency }))
}

/// The limit. Its pool has one connection, since writers that wait for each other on connections
/// of their own are slower.
pub fn limit(pool: SqlitePool) -> Router {
    async fn payments(
        State(pool): State<SqlitePool>,
        account: Account,
        Json(payment): Json<CreatePayment>,
    ) -> Result<(StatusCode, Json<Payment>), ApiError> {
        let mut tx = pool.begin_with("begin immediate").await?;
        let paid = pay(&mut tx, &account, &payment).await?;
        tx.commit().await?;
        Ok((StatusCode::CREATED, Json(paid)))
    }
    Router::new()
        .route("/payments", post(payments))
        .with_state(pool)
}

/// Connects, and makes the application's table.
///
/// # Errors
/// When the file cannot be made.
pub async fn pool(url: &str, connections: u32) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::from_str(url)?.create_if_missing(true);
    let options = if url.contains(":memory:") {
        options
    } else {
        options.journal_mode(SqliteJournalMode::Wal)
    };
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await?;
    sqlx::raw_sql(
        "create table if not exists payments (id integer primary key, account integer not null, \
         amount integer not null, currency text not null)",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}

/// Prints the tables.
///
/// # Errors
/// When a process fails.
pub async fn throughput(
    program: &str,
    connections: &[usize],
    effort: Effort,
) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let database = |name: &str, connections| Database {
        url: format!("sqlite:{}", folder.path().join(name).display()),
        connections,
        ping: true,
    };
    let limit = Server::start(program, "sqlite-limit", &database("limit.db", 1)).await?;
    let idem = Server::start(program, "sqlite-idem", &database("idem.db", 8)).await?;
    // As the limit has it: the pages that one connection wrote are stale to every other.
    let single = Server::start(program, "sqlite-idem", &database("single.db", 1)).await?;
    for &connections in connections {
        let mut contenders = [
            Contender::new("the limit", &limit, "/payments", Keys::Fresh),
            Contender::new(
                "idem, fresh, eight connections",
                &idem,
                "/payments",
                Keys::Fresh,
            ),
            Contender::new(
                "idem, fresh, one connection",
                &single,
                "/payments",
                Keys::Fresh,
            ),
            Contender::new("idem, replay", &idem, "/payments", Keys::Replay),
        ];
        alternate(&mut contenders, connections, effort).await?;
        report::compare(&format!("SQLite, {connections} connections"), &contenders);
    }
    Ok(())
}
