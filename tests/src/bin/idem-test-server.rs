//! The test application as a process of its own, on the database `DATABASE_URL`, until its
//! standard input ends. `POST /control/{door}/…` works the gates inside. `STATEMENT` is what each
//! handler runs beside its effect. With `RELAY` it also delivers the messages of the outbox, into the
//! table `deliveries`.

use std::env;
use std::io::Read;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use idem_runtime::outbox::{Envelope, Relay, RelayTask, Sink, SinkError};
use idem_runtime::{Backend, Idempotency};
use idem_tests::Gate;
use idem_tests::app::{Doors, Handle};
use idem_tests::database::{Kind, Pool, connect};
use idem_tests::script::Script;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() {
    let url = env::var("DATABASE_URL").expect("DATABASE_URL");
    let kind = if url.starts_with("sqlite:") {
        Kind::Sqlite
    } else {
        Kind::Postgres
    };
    let pool = connect(kind, &url, 5, Duration::from_secs(10)).await;
    let handle = Handle::new(&pool, &[]);
    handle.migrate().await.expect("the tables are created");

    let (script, doors) = (Script::default(), Doors::default());
    if let Ok(statement) = env::var("STATEMENT") {
        script.statements([&*statement.leak()]);
    }
    let _relay = env::var("RELAY").is_ok().then(|| match &handle {
        Handle::Postgres(handle) => relay(handle, pool.clone()),
        Handle::Sqlite(handle) => relay(handle, pool.clone()),
    });
    let router = handle
        .router(&script, &doors)
        .nest("/control/handler", control(script.gate.clone()))
        .nest("/control/answer", control(doors.answer.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!(
        "listening on http://{}",
        listener.local_addr().expect("an address")
    );

    std::thread::spawn(|| {
        // Nothing is ever sent: this returns when the test is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    axum::serve(listener, router)
        .await
        .expect("the server serves");
}

/// Delivers into the database, in a transaction of its own: at least once.
struct Deliveries(Pool);

impl Sink for Deliveries {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        let payload = String::from_utf8_lossy(&envelope.message.payload);
        let insert = "insert into deliveries (label) values ($1)";
        let inserted = match &self.0 {
            Pool::Postgres(pool) => {
                let insert = sqlx::query(insert).bind(&*payload).execute(pool).await;
                insert.map(drop)
            }
            Pool::Sqlite(pool) => {
                let insert = sqlx::query(insert).bind(&*payload).execute(pool).await;
                insert.map(drop)
            }
        };
        inserted.map_err(|error| SinkError::failed(error.to_string()))
    }
}

fn relay<DB: Backend>(handle: &Idempotency<DB>, pool: Pool) -> RelayTask {
    Relay::new(handle, Deliveries(pool))
        .lease(Duration::from_millis(400))
        .max_attempts(1_000)
        .backoff(Duration::from_millis(10), Duration::from_millis(50))
        .poll(Duration::from_millis(50))
        .spawn()
}

fn control(gate: Gate) -> Router {
    Router::new()
        .route(
            "/close",
            post(async |State(gate): State<Gate>| gate.close()),
        )
        .route("/open", post(async |State(gate): State<Gate>| gate.open()))
        .route("/arrived/{count}", post(until_arrived))
        .with_state(gate)
}

async fn until_arrived(State(gate): State<Gate>, Path(count): Path<usize>) {
    gate.until_arrived(count).await;
}
