//! RabbitMQ.

use std::time::Duration;

use futures_util::StreamExt;
use idem_runtime::outbox::RabbitMq;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicQosOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, DefaultConnectionBuilder, ExchangeKind};
use tokio::process::Command;

use super::mute::{MuteLine, Protocol};
use super::{Consumed, address};
use crate::breaker::Breaker;

/// Returns where the tests' broker is.
///
/// # Panics
/// When `IDEM_TEST_AMQP` does not say so.
#[must_use]
pub fn url() -> String {
    address("IDEM_TEST_AMQP", "a RabbitMQ")
}

/// A broker that no other test uses.
pub mod scarce {
    use super::{Command, address};

    /// Returns where it is.
    ///
    /// # Panics
    /// When `IDEM_TEST_AMQP_SCARCE` does not say so.
    #[must_use]
    pub fn url() -> String {
        address("IDEM_TEST_AMQP_SCARCE", "a RabbitMQ")
    }

    /// Lets it be short of memory from now on, so that it blocks whoever publishes.
    ///
    /// # Panics
    /// When it cannot be told.
    pub async fn run_short() {
        allow("0").await;
    }

    /// Lets it have memory again.
    ///
    /// # Panics
    /// When it cannot be told.
    pub async fn recover() {
        allow("0.9").await;
    }

    /// Sets what share of the machine's memory it may use, and waits until it knows.
    async fn allow(share: &str) {
        let program = address("IDEM_TEST_AMQP_SCARCE_CTL", "a RabbitMQ");
        let told = Command::new(program)
            .args(["--quiet", "set_vm_memory_high_watermark", share])
            .status();
        assert!(told.await.is_ok_and(|status| status.success()), "not told");
    }
}

/// Lays a line to the tests' broker that can be cut.
pub async fn breaker() -> Breaker {
    Breaker::start(server()).await
}

/// Lays a line to the tests' broker that can be muted.
pub async fn mute_line() -> MuteLine {
    MuteLine::start(server(), Protocol::Amqp).await
}

fn server() -> (String, u16) {
    let uri: AMQPUri = url().parse().expect("an address of RabbitMQ");
    (uri.authority.host, uri.authority.port)
}

/// The tests' broker by way of another port.
#[must_use]
pub fn url_at(port: u16) -> String {
    format!("amqp://127.0.0.1:{port}/%2f")
}

/// Makes a sink to the default exchange.
///
/// # Panics
/// Outside a runtime.
#[must_use]
pub fn sink(url: &str) -> RabbitMq {
    let broker = DefaultConnectionBuilder::new().expect("a runtime");
    RabbitMq::new(broker.with_uri_str(url.to_owned()))
}

/// Connects.
///
/// # Panics
/// When the broker does not answer.
pub async fn connect(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default());
    let connection = connection.await.expect("RabbitMQ answers");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

/// Creates a queue, one of whose consumers gets the messages while it lives.
///
/// # Panics
/// When it cannot be created.
pub async fn create_queue(channel: &Channel, name: &str) {
    let mut arguments = FieldTable::default();
    let one = AMQPValue::Boolean(true);
    arguments.insert("x-single-active-consumer".into(), one);
    channel
        .queue_declare(name.into(), QueueDeclareOptions::durable(), arguments)
        .await
        .expect("a queue");
}

/// Creates an exchange of the queue's name, which passes on what has this routing key.
///
/// # Panics
/// When it cannot be created.
pub async fn bind(channel: &Channel, queue: &str, routing_key: &str) {
    let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
    channel
        .exchange_declare(queue.into(), ExchangeKind::Direct, options, none.clone())
        .await
        .expect("an exchange");
    let options = QueueBindOptions::default();
    channel
        .queue_bind(
            queue.into(),
            queue.into(),
            routing_key.into(),
            options,
            none,
        )
        .await
        .expect("a binding");
}

/// Returns the next message of a queue, and takes it out.
///
/// # Panics
/// When none comes.
pub async fn next(channel: &Channel, queue: &str) -> Delivery {
    for _ in 0..3_000 {
        let get = BasicGetOptions { no_ack: true };
        let got = channel.basic_get(queue.into(), get).await;
        if let Some(message) = got.expect("an answer") {
            return message.delivery;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no message in {queue}");
}

/// Consumes a queue in order, together with others that do so, until the process ends: a message
/// is acknowledged when it was consumed.
///
/// # Panics
/// When the broker does not do its part.
pub async fn consume<C: Future<Output = Consumed>>(
    connection: &Connection,
    queue: &str,
    work: impl Fn(Vec<u8>) -> C,
) {
    let channel = connection.create_channel().await.expect("a channel");
    let one = BasicQosOptions::default();
    channel.basic_qos(1, one).await.expect("a limit");
    let options = BasicConsumeOptions::default();
    let deliveries = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let mut deliveries = deliveries.await.expect("a consumer");
    while let Some(delivery) = deliveries.next().await {
        let delivery = delivery.expect("a delivery");
        let requeue = BasicNackOptions {
            requeue: true,
            ..BasicNackOptions::default()
        };
        let done = match work(delivery.data.clone()).await {
            Consumed::Yes => delivery.ack(BasicAckOptions::default()).await,
            Consumed::No => delivery.nack(requeue).await,
        };
        done.expect("an acknowledgement");
    }
}
