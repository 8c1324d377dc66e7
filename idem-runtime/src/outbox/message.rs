//! What is sent: as it is written, and as a sink gets it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use crate::store::outbox::MessageRow;

/// A message as it is written into the outbox.
///
/// The topic has 1 to 255 bytes, the key up to 255; neither has control characters, nor has a
/// header. How large a payload may be the sink decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Where it goes: a subject, a routing key, an event type.
    pub topic: String,
    /// Messages with the same key are sent one after the other, whatever their topics; without a
    /// key there is no order.
    pub key: Option<String>,
    /// What the sink passes on beside the payload.
    pub headers: BTreeMap<String, String>,
    /// The message itself.
    pub payload: Bytes,
}

impl Message {
    /// Makes a message with a key and with JSON for a payload.
    ///
    /// # Errors
    /// When the value does not serialise.
    pub fn json(
        topic: impl Into<String>,
        key: impl Into<String>,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<Self, serde_json::Error> {
        let content_type = ("content-type".to_owned(), "application/json".to_owned());
        Ok(Self {
            topic: topic.into(),
            key: Some(key.into()),
            headers: BTreeMap::from([content_type]),
            payload: serde_json::to_vec(payload)?.into(),
        })
    }

    /// The headers as their column holds them, once the message has passed the rules.
    pub(super) fn checked_headers(&self) -> Result<String, InvalidMessage> {
        if self.topic.is_empty() || !is_plain(&self.topic) {
            return Err(InvalidMessage::Topic);
        }
        if self.key.as_deref().is_some_and(|key| !is_plain(key)) {
            return Err(InvalidMessage::Key);
        }
        let plain = |text: &str| !text.chars().any(char::is_control);
        if !self
            .headers
            .iter()
            .all(|(name, value)| plain(name) && plain(value))
        {
            return Err(InvalidMessage::Header);
        }
        serde_json::to_string(&self.headers).map_err(|_| InvalidMessage::Header)
    }
}

fn is_plain(text: &str) -> bool {
    text.len() <= 255 && !text.chars().any(char::is_control)
}

/// A message breaks a rule of [`Message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMessage {
    /// The topic.
    #[error("the topic needs 1 to 255 bytes without control characters")]
    Topic,
    /// The key.
    #[error("the key may have up to 255 bytes, and no control characters")]
    Key,
    /// The name or the value of a header.
    #[error("a header may have no control characters")]
    Header,
}

/// A message on its way to a sink.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Envelope {
    /// The same for every attempt, so that whoever gets it twice can tell.
    pub id: Uuid,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When it was written, by the database's clock.
    pub created_at: SystemTime,
    /// The message as it was written.
    pub message: Message,
    /// How long the relay waits for this attempt.
    pub(super) limit: Duration,
}

impl Envelope {
    /// How long a sink waits for what comes before the message, and is nothing that the message could be
    /// blamed for; so that the relay hears of that before its own time-out.
    pub(super) fn limit_before(&self) -> Duration {
        self.limit / 2
    }

    /// Reads a row.
    pub(super) fn read(row: MessageRow) -> Result<Self, sqlx::Error> {
        let decode = |error: Box<dyn std::error::Error + Send + Sync>| sqlx::Error::Decode(error);
        let created = Duration::from_millis(row.created.try_into().unwrap_or_default());
        Ok(Self {
            id: Uuid::parse_str(&row.message_id).map_err(|error| decode(error.into()))?,
            attempt: u32::try_from(row.attempts).unwrap_or(0).saturating_add(1),
            created_at: SystemTime::UNIX_EPOCH + created,
            message: Message {
                topic: row.topic,
                key: row.key,
                headers: serde_json::from_str(&row.headers)
                    .map_err(|error| decode(error.into()))?,
                payload: row.payload.into(),
            },
            // The relay's default, for a dead letter that is published by hand; a relay sets its own.
            limit: Duration::from_secs(10),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_broker_could_carry_is_refused() {
        let good = Message {
            topic: "order.paid".into(),
            ..Message::default()
        };
        assert_eq!(good.checked_headers().as_deref(), Ok("{}"));
        let with = |change: fn(&mut Message)| {
            let mut message = good.clone();
            change(&mut message);
            message.checked_headers().err()
        };
        assert_eq!(with(|m| m.topic.clear()), Some(InvalidMessage::Topic));
        assert_eq!(
            with(|m| m.topic = "a\0".into()),
            Some(InvalidMessage::Topic)
        );
        assert_eq!(
            with(|m| m.key = Some("k".repeat(256))),
            Some(InvalidMessage::Key)
        );
        let header = |m: &mut Message| drop(m.headers.insert("x".into(), "a\r\nb: c".into()));
        assert_eq!(with(header), Some(InvalidMessage::Header));
    }
}
