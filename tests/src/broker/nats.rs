//! NATS JetStream.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::message::{AckKind, StreamMessage};
use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt;
use tokio::process::{Child, Command};

use super::mute::{MuteLine, Protocol};
use super::{Consumed, address};

/// Returns where the tests' server is.
///
/// # Panics
/// When `IDEM_TEST_NATS` does not say so.
#[must_use]
pub fn url() -> String {
    address("IDEM_TEST_NATS", "a NATS server")
}

/// Lays a line to the tests' server that can be muted.
///
/// # Panics
/// When the address is none.
pub async fn mute_line() -> MuteLine {
    let url = url();
    let (_, server) = url.split_once("://").expect("an address of NATS");
    let (host, port) = server.split_once(':').expect("host and port");
    let server = (host.to_owned(), port.parse().expect("a port"));
    MuteLine::start(server, Protocol::Nats).await
}

/// Connects now or when the server is there.
///
/// # Panics
/// When the address is none.
pub async fn connect(url: &str) -> Context {
    let options = ConnectOptions::new()
        .retry_on_initial_connect()
        .reconnect_delay_callback(|_| Duration::from_millis(50));
    jetstream::new(options.connect(url).await.expect("an address of NATS"))
}

/// Creates the stream of everything below a name, which drops a second copy that comes within the
/// window.
///
/// # Panics
/// When it cannot be created.
pub async fn create_stream(context: &Context, name: &str, window: Duration) -> stream::Stream {
    let config = stream::Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        duplicate_window: window,
        ..stream::Config::default()
    };
    // A server that has just started may not be ready for it.
    for _ in 0..100 {
        if let Ok(stream) = context.get_or_create_stream(config.clone()).await {
            return stream;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no stream {name}");
}

/// Returns a message of a stream by its number, from 1, as soon as it is there.
///
/// # Panics
/// When it does not come.
pub async fn nth(stream: &stream::Stream, number: u64) -> StreamMessage {
    for _ in 0..3_000 {
        if let Ok(message) = stream.get_raw_message(number).await {
            return message;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no message {number}");
}

/// Consumes a topic in order, together with others that do so, until the process ends: a message
/// is acknowledged when it was consumed.
///
/// # Panics
/// When the server does not do its part.
pub async fn consume<C: Future<Output = Consumed>>(
    context: &Context,
    stream: &str,
    topic: &str,
    work: impl Fn(Vec<u8>) -> C,
) {
    let stream = context.get_stream(stream).await.expect("the stream");
    let name = topic.replace('.', "-");
    let config = pull::Config {
        durable_name: Some(name.clone()),
        filter_subject: topic.to_owned(),
        // Nothing overtakes a message that is delivered again.
        max_ack_pending: 1,
        ack_wait: Duration::from_secs(1),
        ..pull::Config::default()
    };
    let consumer: PullConsumer = stream
        .get_or_create_consumer(&name, config)
        .await
        .expect("a consumer");
    let mut messages = consumer
        .stream()
        .max_messages_per_batch(1)
        .messages()
        .await
        .expect("messages");
    while let Some(message) = messages.next().await {
        let message = message.expect("a message");
        let kind = match work(message.payload.to_vec()).await {
            Consumed::Yes => AckKind::Ack,
            Consumed::No => AckKind::Nak(None),
        };
        message.ack_with(kind).await.expect("an acknowledgement");
    }
}

/// A server of a test's own, killed with this value.
#[derive(Debug)]
pub struct Server(Child);

impl Server {
    /// Starts a server on the port, with what it has stored in the folder.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(port: u16, folder: &Path) -> Self {
        let program = address("IDEM_TEST_NATS_SERVER", "a NATS server");
        let server = Command::new(program)
            .args(["--jetstream", "--addr", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .arg("--store_dir")
            .arg(folder)
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        Self(server.expect("the server starts"))
    }

    /// Kills it, as `kill -9` does, and waits until it is gone.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn kill(mut self) {
        self.0.kill().await.expect("the server is killed");
    }
}
