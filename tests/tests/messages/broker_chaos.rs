//! Relays and consumers around a real broker, in processes that are killed, as `kill -9` does.
//! The consumers acknowledge nothing that was not delivered before.

use std::process::Stdio;
use std::time::{Duration, Instant};

use idem_runtime::outbox::Message;
use idem_tests::Kind;
use idem_tests::broker::{name, nats, rabbitmq};
use idem_tests::consumer::Paid;
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::fixture::Bus;

const PROGRAM: &str = env!("CARGO_BIN_EXE_idem-test-broker");
const KEYS: usize = 4;
const TIME: Duration = Duration::from_secs(20);

/// Where the messages go.
struct Way {
    bus: Bus,
    broker: String,
    name: String,
}

impl Way {
    async fn new(broker: String) -> Self {
        let bus = Bus::start(Kind::Postgres).await;
        let name = name();
        Self { bus, broker, name }
    }

    fn topic(&self, key: usize) -> String {
        format!("{}.{key}", self.name)
    }

    fn start(&self, role: &str) -> Child {
        let topics: Vec<_> = (0..KEYS).map(|key| self.topic(key)).collect();
        let mut command = Command::new(PROGRAM);
        command
            .arg(role)
            .env("DATABASE_URL", self.bus.database.url())
            .env("BROKER_URL", &self.broker)
            .env("NAME", &self.name)
            .env("TOPICS", topics.join(" "))
            .stdin(Stdio::piped())
            .kill_on_drop(true);
        command.spawn().expect("the process starts")
    }

    fn paid(&self, key: usize, n: usize) -> Message {
        let label = format!("{key}-{n:04}");
        let event = Paid {
            id: label.clone(),
            account: key.to_string(),
            label,
        };
        Message::json(self.topic(key), key.to_string(), &event).expect("JSON")
    }

    /// Publishes all the time and kills a process now and then; then waits, and counts.
    async fn assert_each_message_has_one_effect(&self) {
        let roles = ["relay", "relay", "consumer", "consumer"];
        let mut processes = roles.map(|role| self.start(role));
        let (begun, mut messages, mut kills) = (Instant::now(), 0, 0);
        while begun.elapsed() < TIME {
            let batch = (0..KEYS).map(|key| self.paid(key, messages));
            self.bus.publish(batch).await;
            messages += 1;
            let chance = Uuid::new_v4().as_bytes()[0];
            if chance < 40 {
                let which = usize::from(chance) % processes.len();
                processes[which].kill().await.expect("a process is killed");
                processes[which] = self.start(roles[which]);
                kills += 1;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(kills >= 5, "hardly anything was killed");
        let all = i64::try_from(KEYS * messages).expect("a small number");
        let pool = &self.bus.pool;
        let twice = "select count(*) from (select label from deliveries group by label \
                     having count(*) > 1) as labels";
        let since = Instant::now();
        while pool.number(twice).await < all {
            let (sent, effects) = (
                pool.number("select count(*) from outbox where state = 2")
                    .await,
                self.bus.database.effects().await,
            );
            assert!(
                since.elapsed() < Duration::from_mins(2),
                "{all} messages, {sent} sent, {effects} effects after {kills} kills"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }

        let labels = pool
            .number("select count(distinct label) from effects")
            .await;
        assert_eq!((self.bus.database.effects().await, labels), (all, all));
        let out_of_order = "select count(*) from effects as a join effects as b \
                            on a.account = b.account and a.id < b.id and a.label > b.label";
        assert_eq!(pool.number(out_of_order).await, 0);
        assert_eq!(self.bus.dead_letters().await.len(), 0);
    }
}

#[tokio::test]
#[cfg_attr(
    not(all(feature = "nats-server", feature = "postgres-server")),
    ignore = "needs NATS and PostgreSQL: run scripts/test"
)]
async fn no_kill_around_nats_loses_repeats_or_reorders_an_effect() {
    let way = Way::new(nats::url()).await;
    let context = nats::connect(&way.broker).await;
    // So that the consumers get what the relays send twice.
    let window = Duration::from_millis(100);
    nats::create_stream(&context, &way.name, window).await;
    way.assert_each_message_has_one_effect().await;
}

#[tokio::test]
#[cfg_attr(
    not(all(feature = "rabbitmq-server", feature = "postgres-server")),
    ignore = "needs RabbitMQ and PostgreSQL: run scripts/test"
)]
async fn no_kill_around_rabbitmq_loses_repeats_or_reorders_an_effect() {
    let way = Way::new(rabbitmq::url()).await;
    let (_connection, channel) = rabbitmq::connect(&way.broker).await;
    for key in 0..KEYS {
        rabbitmq::create_queue(&channel, &way.topic(key)).await;
    }
    way.assert_each_message_has_one_effect().await;
}
