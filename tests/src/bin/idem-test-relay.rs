//! A relay with its consumer in one process, on the database `DATABASE_URL`, until its standard
//! input ends. With `STUCK` it publishes, says so, and never comes back to mark the message.

use std::env;
use std::future::pending;
use std::io::Read;
use std::time::Duration;

use idem_runtime::outbox::{Envelope, Relay, RelayTask, Sink, SinkError};
use idem_runtime::{Backend, Idempotency};
use idem_tests::app::Handle;
use idem_tests::consumer::{Conduct, deliver};
use idem_tests::database::{Kind, connect};

/// Consumes at once what it gets.
struct Consumer {
    handle: Handle,
    conduct: Conduct,
    stuck: bool,
}

impl Sink for Consumer {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        let event = serde_json::from_slice(&envelope.message.payload);
        let event = event.map_err(SinkError::refused)?;
        let consumed = deliver(&self.handle, &self.conduct, event).await;
        if self.stuck {
            println!("published {}", envelope.id);
            pending::<()>().await;
        }
        consumed
            .map(drop)
            .map_err(|error| SinkError::failed(error.to_string()))
    }
}

fn relay<DB: Backend>(handle: &Idempotency<DB>, sink: Consumer) -> RelayTask {
    Relay::new(handle, sink)
        .lease(Duration::from_millis(400))
        .max_attempts(1_000)
        .backoff(Duration::from_millis(10), Duration::from_millis(50))
        .poll(Duration::from_millis(20))
        .spawn()
}

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
    let sink = Consumer {
        handle: handle.clone(),
        conduct: Conduct::default(),
        stuck: env::var("STUCK").is_ok(),
    };
    let _relay = match &handle {
        Handle::Postgres(handle) => relay(handle, sink),
        Handle::Sqlite(handle) => relay(handle, sink),
    };
    std::thread::spawn(|| {
        // Nothing is ever sent: this returns when the test is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    pending::<()>().await;
}
