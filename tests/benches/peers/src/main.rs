//! The application behind other crates: one server for each, as `idem-bench` starts them.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use cratestack_axum::idempotency::IdempotencyLayer;
use cratestack_sqlx::SqlxIdempotencyStore;
use idem_bench::payments::{Account, ApiError, CreatePayment, Payment, pay, transfer};
use idem_bench::serve::{Database, pool, serve};
use idem_bench::{Failure, hand_written};
use idempotent::memory::MemoryStore;
use ruts::store::Ttl;
use ruts::store::moka::MokaStore;
use ruts::{CookieOptions, Session, SessionLayer};
use sqlx::PgPool;
use tower_cookies::CookieManagerLayer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [_serve, variant, url, connections, ping] = &arguments[..] else {
        return Err("this is started by idem-bench".into());
    };
    let database = Database {
        url: url.clone(),
        connections: connections.parse()?,
        ping: ping.parse()?,
    };
    let pool = pool(&database).await?;
    serve(match variant.as_str() {
        "cratestack" => {
            // Its store takes a pool of its own, of an older sqlx.
            let of_store = sqlx_of_cratestack::postgres::PgPoolOptions::new()
                .max_connections(database.connections)
                .min_connections(database.connections)
                .connect(&database.url)
                .await?;
            let store = SqlxIdempotencyStore::new(of_store);
            store
                .ensure_schema()
                .await
                .map_err(|error| error.to_string())?;
            hand_written::limit(pool).layer(IdempotencyLayer::new(Arc::new(store), DAY))
        }
        "idempotent" => {
            let store = MemoryStore::builder().try_build()?;
            let layer = idempotent::middleware::IdempotencyLayer::new(store).scope(|parts| {
                let account = parts.headers.get("x-account")?;
                account.to_str().ok().map(String::from)
            });
            hand_written::limit(pool).layer(layer)
        }
        "axum-idempotent" => in_a_session(pool),
        _ => request_transaction(pool),
    })
    .await
}

/// `axum-idempotent` keeps responses in the session, here in memory.
fn in_a_session(pool: PgPool) -> Router {
    async fn begin(session: Session<MokaStore>) -> StatusCode {
        let Ok(ttl) = Ttl::new(3600) else {
            return StatusCode::INTERNAL_SERVER_ERROR;
        };
        match session.set("user", &"bench".to_owned(), ttl, None).await {
            Ok(_) => StatusCode::CREATED,
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    let options =
        IdempotentOptions::default().use_idempotency_key_header(Some("idempotency-key"), true);
    let cookie = CookieOptions::build()
        .name("session")
        .max_age(3600)
        .path("/");
    hand_written::limit(pool)
        .layer(IdempotentLayer::<MokaStore>::new(options))
        .route("/session", post(begin))
        .layer(
            SessionLayer::new(Arc::new(MokaStore::builder().build())).with_cookie_options(cookie),
        )
        .layer(CookieManagerLayer::new())
}

/// `axum-sqlx-tx` gives a request its transaction, and no idempotency.
fn request_transaction(pool: PgPool) -> Router {
    type Tx = axum_sqlx_tx::Tx<sqlx::Postgres>;

    async fn payments(
        mut tx: Tx,
        account: Account,
        Json(payment): Json<CreatePayment>,
    ) -> Result<(StatusCode, Json<Payment>), ApiError> {
        Ok((
            StatusCode::CREATED,
            Json(pay(&mut tx, &account, &payment).await?),
        ))
    }

    async fn transfers(
        mut tx: Tx,
        account: Account,
        Json(payment): Json<CreatePayment>,
    ) -> Result<(StatusCode, Json<Payment>), ApiError> {
        Ok((
            StatusCode::CREATED,
            Json(transfer(&mut tx, &account, &payment).await?),
        ))
    }

    let (state, layer) = Tx::setup(pool);
    Router::new()
        .route("/payments", post(payments))
        .route("/transfers", post(transfers))
        .layer(layer)
        .with_state(state)
}
