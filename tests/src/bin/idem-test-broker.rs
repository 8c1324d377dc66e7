//! A relay or a consumer in a process of its own, between the database `DATABASE_URL` and the
//! broker at `BROKER_URL`, for the topics `TOPICS` below `NAME`, until its standard input ends.

use std::env;
use std::future::pending;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use idem_runtime::outbox::{JetStream, Relay, RelayTask, Sink};
use idem_runtime::{Backend, Idempotency};
use idem_tests::app::Handle;
use idem_tests::broker::{Consumed, nats, rabbitmq};
use idem_tests::consumer::{Conduct, Paid, deliver};
use idem_tests::database::{Kind, Pool, connect};
use tokio::task::JoinSet;

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn relay<S: Sink>(handle: &Handle, sink: S) -> RelayTask {
    match handle {
        Handle::Postgres(handle) => start(handle, sink),
        Handle::Sqlite(handle) => start(handle, sink),
    }
}

fn start<DB: Backend, S: Sink>(handle: &Idempotency<DB>, sink: S) -> RelayTask {
    Relay::new(handle, sink)
        .lease(Duration::from_secs(1))
        .max_attempts(1_000)
        .backoff(Duration::from_millis(10), Duration::from_millis(50))
        .poll(Duration::from_millis(20))
        .spawn()
}

/// Consumes deliveries, writes each down, and acknowledges none that is the first of its message.
#[derive(Clone)]
struct Consumer {
    handle: Handle,
    pool: Pool,
}

impl Consumer {
    async fn consume(self, payload: Vec<u8>) -> Consumed {
        let event: Paid = serde_json::from_slice(&payload).expect("an event");
        let label = &event.label;
        let earlier = format!("select count(*) from deliveries where label = '{label}'");
        let earlier = self.pool.number(&earlier).await;
        let sql = format!("insert into deliveries (label) values ('{label}')");
        self.pool.execute(&sql).await;
        match deliver(&self.handle, &Conduct::default(), event).await {
            Ok(_) if earlier > 0 => Consumed::Yes,
            _ => Consumed::No,
        }
    }
}

#[tokio::main]
async fn main() {
    let (database, broker) = (variable("DATABASE_URL"), variable("BROKER_URL"));
    let kind = if database.starts_with("sqlite:") {
        Kind::Sqlite
    } else {
        Kind::Postgres
    };
    std::thread::spawn(|| {
        // Nothing is ever sent: this returns when the test is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let pool = connect(kind, &database, 8, Duration::from_secs(10)).await;
    let handle = Handle::new(&pool, &[]);
    let is_nats = broker.starts_with("nats:");
    if env::args().nth(1).as_deref() == Some("relay") {
        let _relay = if is_nats {
            relay(&handle, JetStream::new(nats::connect(&broker).await))
        } else {
            relay(&handle, rabbitmq::sink(&broker))
        };
        pending::<()>().await;
    }

    let consumer = Consumer { handle, pool };
    let name = variable("NAME");
    let topics = variable("TOPICS");
    let mut consuming = JoinSet::new();
    if is_nats {
        let context = nats::connect(&broker).await;
        for topic in topics.split(' ') {
            let (context, consumer) = (context.clone(), consumer.clone());
            let (name, topic) = (name.clone(), topic.to_owned());
            consuming.spawn(async move {
                let consume = move |payload| consumer.clone().consume(payload);
                nats::consume(&context, &name, &topic, consume).await;
            });
        }
    } else {
        let connection = Arc::new(rabbitmq::connect(&broker).await.0);
        for topic in topics.split(' ') {
            let (connection, consumer) = (Arc::clone(&connection), consumer.clone());
            let topic = topic.to_owned();
            consuming.spawn(async move {
                let consume = move |payload| consumer.clone().consume(payload);
                rabbitmq::consume(&connection, &topic, consume).await;
            });
        }
    }
    consuming.join_all().await;
}
