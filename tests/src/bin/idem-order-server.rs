//! Orders in leased mode as a process of its own, on the database `DATABASE_URL`, with the provider
//! at `PSP_URL`, if there is one, a lease of `LEASE_MS`, and a pause of `PAUSE_MS` at each point, until
//! its standard input ends.
//! `POST /control/{point}/…` works the gates inside, `GET /clock` tells the process's time, and
//! `GET /in-flight` how many claims it holds.

use std::env;
use std::io::Read;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use idem_tests::counted::Counted;
use idem_tests::database::{Kind, connect};
use idem_tests::leased::{Gates, LeasedSetup, Order, Provider, serve};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() {
    let counted = Counted::default();
    metrics::set_global_recorder(counted.clone()).expect("the first recorder");
    let url = env::var("DATABASE_URL").expect("DATABASE_URL");
    let kind = if url.starts_with("sqlite:") {
        Kind::Sqlite
    } else {
        Kind::Postgres
    };
    let pool = connect(kind, &url, 5, Duration::from_secs(10)).await;
    let setup = LeasedSetup {
        lease: Duration::from_millis(milliseconds("LEASE_MS").expect("LEASE_MS")),
        ..LeasedSetup::default()
    };
    let order = Order {
        gates: Gates::default(),
        provider: env::var("PSP_URL").map_or(Provider::Generous, |url| Provider::at(&url)),
        pause: Duration::from_millis(milliseconds("PAUSE_MS").unwrap_or(0)),
    };
    let control = Router::new()
        .route("/control/{point}/close", post(close))
        .route("/control/{point}/open", post(open))
        .route("/control/{point}/arrived", get(arrived))
        .route("/control/{point}/arrived/{count}", post(until_arrived))
        .with_state(order.gates.clone());
    let router = serve(&pool, setup, order)
        .await
        .merge(control)
        .route("/clock", get(clock))
        .route(
            "/in-flight",
            get(async move || counted.gauge("idempotency_in_flight").to_string()),
        );
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

fn milliseconds(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect("milliseconds"))
}

async fn close(State(gates): State<Gates>, Path(point): Path<String>) {
    gates.at(&point).close();
}

async fn open(State(gates): State<Gates>, Path(point): Path<String>) {
    gates.at(&point).open();
}

async fn arrived(State(gates): State<Gates>, Path(point): Path<String>) -> String {
    gates.at(&point).arrived().to_string()
}

async fn until_arrived(State(gates): State<Gates>, Path((point, count)): Path<(String, usize)>) {
    gates.at(&point).until_arrived(count).await;
}

/// Seconds since the Unix epoch.
async fn clock() -> String {
    let age = SystemTime::UNIX_EPOCH.elapsed();
    age.expect("a time after 1970").as_secs().to_string()
}
