//! Mixed load with sweeps, for as many seconds as the argument says (300), on the PostgreSQL at
//! `IDEM_TEST_POSTGRES`. Prints what it takes of memory, tables, sessions, and tasks as it goes on, and
//! fails when any of it is not flat at the end. Dead rows are vacuumed before each look.

use std::env;
use std::fmt::Display;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::Method;
use idem_runtime::Overrides;
use idem_runtime::outbox::{Envelope, Relay, Sink, SinkError};
use idem_tests::app::{Doors, Handle, client};
use idem_tests::client::Request;
use idem_tests::counted::Counted;
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::leased::{LeasedApp, LeasedSetup};
use idem_tests::script::Script;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

const CLIENTS: usize = 8;
const SESSIONS: u32 = 8;
/// How long keys and messages are kept, so that as many go as come after a while.
const KEPT: Duration = Duration::from_secs(10);
/// How many samples are taken.
const SAMPLES: u32 = 30;

/// Confirms whatever comes.
struct Nowhere;

impl Sink for Nowhere {
    async fn publish(&self, _: &Envelope) -> Result<(), SinkError> {
        Ok(())
    }
}

/// What is looked at, in the order of the columns.
const COLUMNS: [&str; 7] = [
    "memory",
    "keys",
    "messages",
    "tables",
    "sessions",
    "tasks",
    "in flight",
];

type Sample = [u64; COLUMNS.len()];

#[derive(Clone)]
struct Soak {
    database: Arc<TestDatabase>,
    url: String,
    client: reqwest::Client,
    leased: Arc<LeasedApp>,
    counted: Counted,
    requests: Arc<AtomicUsize>,
    end: Instant,
}

#[tokio::main]
async fn main() -> ExitCode {
    let seconds = env::args()
        .nth(1)
        .map_or(300, |seconds| seconds.parse().expect("seconds"));
    let limit = Duration::from_secs(seconds);
    let counted = Counted::default();
    metrics::set_global_recorder(counted.clone()).expect("the first recorder");
    let database = Arc::new(TestDatabase::create(Kind::Postgres).await);
    let pool = database.connect(SESSIONS, Duration::from_secs(30)).await;
    let scopes = [
        "effects",
        "effects.told",
        "effects.patient",
        "effects.released",
    ];
    let settings =
        scopes.map(|scope| idem_tests::Setting::Scope(scope, Overrides::new().ttl(KEPT)));
    let handle = Handle::new(&pool, &settings);
    handle.migrate().await.expect("the tables are created");
    let Handle::Postgres(idempotency) = &handle else {
        unreachable!("the database is PostgreSQL");
    };
    let sweeper = handle.spawn_sweeper(Duration::from_secs(1));
    let relay = Relay::new(idempotency, Nowhere).retention(KEPT).spawn();
    let router = handle.router(&Script::default(), &Doors::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let setup = LeasedSetup {
        ttl: KEPT,
        ..LeasedSetup::default()
    };
    let soak = Soak {
        leased: Arc::new(LeasedApp::with(&database, setup).await),
        database,
        url,
        client: client(),
        counted,
        requests: Arc::default(),
        end: Instant::now() + limit,
    };

    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(soak.clone().use_keys(number)))
        .collect();
    row("seconds", "requests", &COLUMNS);
    let mut series = Vec::new();
    for n in 1..=SAMPLES {
        sleep(limit / SAMPLES).await;
        let sample = soak.sample().await;
        let seconds = (limit / SAMPLES * n).as_secs();
        row(seconds, soak.requests.load(Ordering::Relaxed), &sample);
        series.push(sample);
    }
    for client in clients {
        client.await.expect("no panic");
    }
    // Two of them remove what is left: one that has expired, and one that goes meanwhile.
    sleep(KEPT + Duration::from_secs(3)).await;
    let at_rest = soak.sample().await;
    row("at rest", soak.requests.load(Ordering::Relaxed), &at_rest);
    sweeper.stop().await;
    relay.stop().await;
    server.abort();
    verdict(&series, &at_rest)
}

fn row(seconds: impl Display, requests: impl Display, values: &[impl Display]) {
    print!("{seconds:>9} {requests:>9}");
    for value in values {
        print!(" {value:>10}");
    }
    println!();
}

/// Flat: the last third takes no more than the one in the middle, but for what chance may do.
fn verdict(series: &[Sample], at_rest: &Sample) -> ExitCode {
    let third = series.len() / 3;
    let most = |samples: &[Sample], column: usize| {
        let values = samples.iter().map(|sample| sample[column]);
        values.max().unwrap_or_default()
    };
    let mut flat = true;
    for (column, name) in COLUMNS.iter().enumerate() {
        let (middle, last) = (
            most(&series[third..2 * third], column),
            most(&series[2 * third..], column),
        );
        let sound = last <= middle + middle / 4 + 16;
        println!(
            "{name}: {middle} at most in the middle, {last} at the end: {}",
            if sound { "flat" } else { "it grows" }
        );
        flat &= sound;
    }
    let [_, keys, messages, .., in_flight] = at_rest;
    println!("at rest: {keys} keys, {messages} messages, {in_flight} in flight");
    flat &= (*keys, *messages, *in_flight) == (0, 0, 0);
    if flat {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Soak {
    fn post(&self, path: &str, key: &str) -> Request {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Request::new(&self.client, Method::POST, format!("{}{path}", self.url))
            .key(key)
            .header("x-label", key)
    }

    fn order(&self, key: &str) -> Request {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.leased.order(key)
    }

    /// Everything that clients do with keys, one after the other.
    async fn use_keys(self, client: usize) {
        for n in 0.. {
            if Instant::now() >= self.end {
                return;
            }
            let key = format!("{client}-{n}");
            let first = self.post("/told", &key).await;
            assert_eq!(first.status, 201, "{first:?}");
            self.post("/told", &key).await.assert_replays(&first);
            assert_eq!(self.post("/told", &key).body("another").await.status, 422);

            let two = [
                self.post("/patient", &key).start(),
                self.post("/patient", &key).start(),
            ];
            for duplicate in two {
                assert_eq!(duplicate.answer().await.status, 201);
            }
            assert_eq!(self.post("/release", &key).await.status, 201);

            let order = self.order(&key).await;
            assert_eq!(order.status, 201, "{order:?}");
            self.order(&key).await.assert_replays(&order);

            let gone = self
                .post("/effects", &key)
                .body("x".repeat(100_000))
                .start();
            sleep(Duration::from_millis(n % 5)).await;
            gone.leave();
        }
    }

    async fn sample(&self) -> Sample {
        // Or the tables would show when the server last did so by itself, and how busy it was since.
        let vacuum = "vacuum idempotency_keys, idempotency_steps, outbox";
        self.database.pool().execute(vacuum).await;
        let number = async |sql: &str| {
            let number = self.database.pool().number(sql).await;
            u64::try_from(number).unwrap_or_default()
        };
        let tables = "select (pg_total_relation_size('idempotency_keys') \
                      + pg_total_relation_size('idempotency_steps') \
                      + pg_total_relation_size('outbox'))::int8";
        let sessions = "select count(*) from pg_stat_activity where datname = current_database()";
        let tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        // A gauge of whole numbers.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let in_flight = self.counted.gauge("idempotency_in_flight") as u64;
        [
            resident(),
            number("select count(*) from idempotency_keys").await,
            number("select count(*) from outbox").await,
            number(tables).await,
            number(sessions).await,
            tasks as u64,
            in_flight,
        ]
    }
}

/// The memory of this process, clients and all, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|text| text.parse::<u64>().ok())
        .expect("a number")
        * 1024
}
