//! Messages to RabbitMQ.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionStatus, DefaultConnectionBuilder,
    ErrorKind,
};
use tokio::time::{sleep, timeout};

use super::{Envelope, Sink, SinkError};

/// How long the broker has for a new connection and channel.
const TO_CONNECT: Duration = Duration::from_secs(4);

/// How often a connection is looked at while something is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// As a broker keeps them over its restart.
const PERSISTENT: u8 = 2;

/// Publishes each message to an exchange of RabbitMQ, and waits for the broker's confirmation.
///
/// The topic is the routing key, and `message_id` is the message's id. Messages are persistent and
/// mandatory: one that no queue gets is a failed attempt. The message's headers are sent along,
/// `content-type` as the property of that name.
///
/// It connects with the first message, and again when the connection is lost. While the broker is
/// away, refuses the connection (a wrong password, a missing virtual host, too many connections), or
/// blocks publishers because it is short of memory or disk, no attempt counts; nor does one count when
/// there is no such exchange. What is on its way when the broker begins
/// to block is sent again, and may come twice. Another confirmation that does not come within the
/// relay's time-out is a failed attempt.
///
/// A new connection has 4 seconds, and no more than half the relay's time-out.
///
/// ```
/// # use idem_runtime::outbox::RabbitMq;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lapin::Error> {
/// let broker = lapin::DefaultConnectionBuilder::new()?
///     .with_uri_str("amqp://127.0.0.1:5672/%2f".into());
/// let sink = RabbitMq::new(broker).exchange("orders");
/// # drop(sink);
/// # Ok(()) }
/// ```
pub struct RabbitMq {
    broker: DefaultConnectionBuilder,
    exchange: String,
    connection: tokio::sync::Mutex<Option<Connection>>,
    /// Channels on which nothing is on its way.
    ///
    /// Each channel carries one message at a time. An answer then belongs to that message for
    /// certain: what was returned is told by the next confirmation on the channel, whichever
    /// message that confirms, and what the broker does not like closes the channel for all that
    /// is on it.
    idle: Mutex<Vec<Channel>>,
}

impl RabbitMq {
    /// Publishes to the default exchange, where the routing key is the name of a queue, of the
    /// broker that the builder connects to; the builder decides about address, TLS, and credentials.
    #[must_use]
    pub fn new(broker: DefaultConnectionBuilder) -> Self {
        Self {
            broker,
            exchange: String::new(),
            connection: tokio::sync::Mutex::default(),
            idle: Mutex::default(),
        }
    }

    /// Publishes to this exchange instead, which must exist.
    #[must_use]
    pub fn exchange(mut self, name: impl Into<String>) -> Self {
        self.exchange = name.into();
        self
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an idle channel, or opens one; with the state of its connection.
    async fn channel(&self) -> Result<(Channel, ConnectionStatus), SinkError> {
        let mut kept = self.connection.lock().await;
        // Put back when all went well: one that takes no channel is replaced. Another in the place of
        // a blocked one would be blocked too, and know it only after its first message.
        let connected = kept.take().filter(|kept| kept.status().connected());
        let connection = if let Some(connection) = connected {
            connection
        } else {
            self.idle().clear();
            // Whatever it says now, no message is to blame.
            let connecting = self.broker.connect();
            connecting.await.map_err(SinkError::unavailable)?
        };
        let status = connection.status().clone();
        let opening = async {
            let open = |channel: &Channel| channel.status().connected();
            let idle = self.idle().pop().filter(open);
            match idle {
                Some(channel) => Ok(channel),
                None => new_channel(&connection)
                    .await
                    .map_err(SinkError::unavailable),
            }
        };
        let channel = unless_blocked(&status, opening).await;
        if channel.is_ok() || status.blocked() {
            *kept = Some(connection);
        }
        Ok((channel?, status))
    }
}

/// Waits for something unless the broker blocks the connection: it reads nothing of ours then.
async fn unless_blocked<T>(
    status: &ConnectionStatus,
    work: impl Future<Output = Result<T, SinkError>>,
) -> Result<T, SinkError> {
    let blocked = async {
        while !status.blocked() {
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        () = blocked => Err(SinkError::unavailable("the broker blocks publishers")),
        done = work => done,
    }
}

async fn new_channel(connection: &Connection) -> lapin::Result<Channel> {
    let channel = connection.create_channel().await?;
    let options = ConfirmSelectOptions::default();
    channel.confirm_select(options).await?;
    Ok(channel)
}

impl Sink for RabbitMq {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        let short = |text: &str| ShortString::try_new(text).map_err(SinkError::refused);
        let (exchange, topic) = (short(&self.exchange)?, short(&envelope.message.topic)?);
        let properties = properties(envelope)?;
        let limit = TO_CONNECT.min(envelope.limit_before());
        let (channel, status) = match timeout(limit, self.channel()).await {
            Ok(channel) => channel?,
            Err(late) => return Err(SinkError::unavailable(late)),
        };

        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let published = async {
            let payload = &envelope.message.payload;
            let publish = channel.basic_publish(exchange, topic, options, payload, properties);
            publish.await.map_err(why)?.await.map_err(why)
        };
        // Dropped here, as by the relay's time-out, the channel is closed and not used again.
        let confirmation = unless_blocked(&status, published).await?;
        self.idle().push(channel);
        match confirmation {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
                let (code, text) = (returned.reply_code, &returned.reply_text);
                let why = format!("the broker returned it: {code} {text}");
                Err(SinkError::failed(why))
            }
            Confirmation::Nack(None) => Err(SinkError::failed("the broker did not keep it")),
            Confirmation::NotRequested => Err(SinkError::failed("the broker does not confirm")),
        }
    }
}

fn properties(envelope: &Envelope) -> Result<BasicProperties, SinkError> {
    let short = |text: &str| ShortString::try_new(text).map_err(SinkError::refused);
    let written = envelope.created_at.duration_since(SystemTime::UNIX_EPOCH);
    let mut properties = BasicProperties::default()
        .with_message_id(short(&envelope.id.to_string())?)
        .with_timestamp(written.unwrap_or_default().as_secs())
        .with_delivery_mode(PERSISTENT);
    let mut headers = FieldTable::default();
    for (name, value) in &envelope.message.headers {
        if name.eq_ignore_ascii_case("content-type") {
            properties = properties.with_content_type(short(value)?);
        } else {
            let value = AMQPValue::LongString(LongString::from(value.as_str()));
            headers.insert(short(name)?, value);
        }
    }
    Ok(properties.with_headers(headers))
}

/// Tells a message that the broker does not like from a broker that takes none.
fn why(error: lapin::Error) -> SinkError {
    let takes_none = match error.kind() {
        ErrorKind::ProtocolError(error) => matches!(
            error.kind(),
            AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED)
                // The exchange, since a queue is named by nothing that we send.
                | AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)
        ),
        ErrorKind::SerialisationError(_) => false,
        _ => true,
    };
    if takes_none {
        SinkError::unavailable(error)
    } else {
        SinkError::failed(error)
    }
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMq")
            .field("exchange", &self.exchange)
            .finish_non_exhaustive()
    }
}
