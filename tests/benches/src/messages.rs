//! A payment that writes a message: in a transaction of one's own, and behind idem.

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use idem_runtime::outbox::{self, Message};
use idem_runtime::{Idempotency, idempotent};
use sqlx::{PgConnection, PgPool, Postgres};

use crate::cluster::Cluster;
use crate::load::Keys;
use crate::payments::{Account, ApiError, CreatePayment, Payment, pay};
use crate::rounds::{Contender, Effort, alternate};
use crate::serve::{Database, Server};
use crate::{Failure, report};

type Paid = Result<(StatusCode, Json<Payment>), ApiError>;

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Postgres>,
    pool: PgPool,
}

async fn tell(tx: &mut PgConnection, payment: &Payment) -> Result<(), sqlx::Error> {
    let message = Message {
        topic: "payment.created".into(),
        key: Some(payment.account.to_string()),
        payload: payment.id.to_string().into(),
        ..Message::default()
    };
    outbox::publish(tx, message).await.map(drop)
}

async fn own(
    State(pool): State<PgPool>,
    account: Account,
    Json(payment): Json<CreatePayment>,
) -> Paid {
    let mut tx = pool.begin().await?;
    let paid = pay(&mut tx, &account, &payment).await?;
    tell(&mut tx, &paid).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(paid)))
}

#[idempotent(scope = "payments.told", tenant = account.0)]
async fn handler(
    account: Account,
    tx: &mut PgConnection,
    Json(payment): Json<CreatePayment>,
) -> Paid {
    let paid = pay(tx, &account, &payment).await?;
    tell(tx, &paid).await?;
    Ok((StatusCode::CREATED, Json(paid)))
}

/// Makes the application.
///
/// # Errors
/// When the tables cannot be made.
pub async fn app(pool: PgPool) -> Result<Router, Failure> {
    let idempotency = Idempotency::new(pool.clone());
    idempotency.migrate().await?;
    Ok(Router::new()
        .route("/own", post(own))
        .route("/handler", post(handler))
        .with_state(App { idempotency, pool }))
}

/// Prints the table.
///
/// # Errors
/// When a process fails.
pub async fn throughput(program: &str, cluster: &Cluster, effort: Effort) -> Result<(), Failure> {
    let database = Database {
        url: cluster.database().await?,
        connections: 16,
        ping: true,
    };
    let limit = Server::start(program, "limit", &database).await?;
    let server = Server::start(program, "messages", &database).await?;
    let mut contenders = [
        Contender::new(
            "own transaction, no message",
            &limit,
            "/payments",
            Keys::Fresh,
        ),
        Contender::new("own transaction, a message", &server, "/own", Keys::Fresh),
        Contender::new("idem, fresh, a message", &server, "/handler", Keys::Fresh),
    ];
    alternate(&mut contenders, 16, effort).await?;
    report::compare("Outbox, PostgreSQL, fsync on, 16 connections", &contenders);
    Ok(())
}
