//! Messages to NATS JetStream.

use std::error::Error;
use std::fmt;

use async_nats::HeaderMap;
use async_nats::connection::State;
use async_nats::header::{HeaderName, HeaderValue};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;

use super::{Envelope, Sink, SinkError};

/// Publishes each message to a stream of NATS JetStream, and waits for the stream's
/// acknowledgement.
///
/// The topic is the subject, which a stream must listen to. `Nats-Msg-Id` is the message's id, so
/// that the stream itself drops a second copy that comes within its window
/// (`duplicate_window`, two minutes unless it says otherwise).
///
/// The client reconnects by itself. While it is not connected, no attempt counts. An
/// acknowledgement that does not come within the context's time-out (5 seconds unless it was set),
/// or within the relay's, is a failed attempt.
///
/// ```no_run
/// # use idem_runtime::outbox::JetStream;
/// # async fn connect() -> Result<JetStream, async_nats::ConnectError> {
/// // Without `retry_on_initial_connect`, the relay could not start while the server is away.
/// let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
/// let client = options.connect("nats://127.0.0.1:4222").await?;
/// Ok(JetStream::new(async_nats::jetstream::new(client)))
/// # }
/// ```
#[derive(Clone)]
pub struct JetStream {
    context: Context,
}

impl JetStream {
    /// Publishes through a context, which decides about servers, TLS, credentials, and domain.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    fn is_connected(&self) -> bool {
        self.context.client().connection_state() == State::Connected
    }

    /// What an error says about the message, and about the server.
    fn why(&self, error: PublishError) -> SinkError {
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => SinkError::refused(error),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe if !self.is_connected() => {
                SinkError::unavailable(error)
            }
            _ => SinkError::failed(error),
        }
    }
}

impl Sink for JetStream {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        let subject = envelope.message.topic.clone();
        if !is_subject(&subject) {
            return Err(SinkError::refused("the topic is no subject to publish to"));
        }
        let publish = PublishMessage::build()
            .headers(headers(envelope).map_err(SinkError::refused)?)
            .message_id(envelope.id.to_string())
            .payload(envelope.message.payload.clone());
        // The client would keep the message until it is connected again, and send it then.
        if !self.is_connected() {
            return Err(SinkError::unavailable("not connected to NATS"));
        }
        let published = async {
            let acknowledgement = self.context.send_publish(subject, publish).await?;
            acknowledgement.await
        };
        published.await.map(drop).map_err(|error| self.why(error))
    }
}

/// Says whether a message can have this subject: no empty token, no wildcard, no white space.
fn is_subject(topic: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty() && token != "*" && token != ">" && !token.contains(char::is_whitespace)
    };
    topic.split('.').all(is_token)
}

fn headers(envelope: &Envelope) -> Result<HeaderMap, Box<dyn Error + Send + Sync>> {
    let mut headers = HeaderMap::new();
    for (name, value) in &envelope.message.headers {
        headers.insert(name.parse::<HeaderName>()?, value.parse::<HeaderValue>()?);
    }
    Ok(headers)
}

impl fmt::Debug for JetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStream").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_stream_could_take_is_no_subject() {
        for subject in ["order.paid", "order", "a.b*.c>", "\u{fc}.x"] {
            assert!(is_subject(subject), "{subject}");
        }
        for other in ["", ".", "a.", ".a", "a..b", "a.*", "a.>", "a b", "*"] {
            assert!(!is_subject(other), "{other}");
        }
    }
}
