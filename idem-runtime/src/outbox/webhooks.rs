//! Messages as Standard Webhooks: signed posts to one endpoint.

use std::error::Error;
use std::fmt;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, StatusCode, Url};
use sha2::Sha256;

use super::{Envelope, Sink, SinkError};

/// Posts each message to an endpoint, as the Standard Webhooks specification 1.0 says.
///
/// The id is the message's for every attempt; time stamp and signature are made anew, so that a
/// receiver that refuses old time stamps takes a late attempt. Any 2xx confirms. 410 (Gone)
/// refuses for good; while there is no connection to the endpoint, no attempt counts; everything
/// else is a failed attempt. The message's headers are sent along; `content-type` is
/// `application/json` unless they say otherwise.
///
/// ```
/// # use idem_runtime::outbox::Webhooks;
/// # fn sink() -> Result<Webhooks, Box<dyn std::error::Error>> {
/// let client = reqwest::Client::builder().connect_timeout(std::time::Duration::from_secs(3));
/// let endpoint = "https://shop.example.com/webhooks".parse()?;
/// Ok(Webhooks::new(client, endpoint, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?)
/// # }
/// # assert!(sink().is_ok());
/// ```
#[derive(Clone)]
pub struct Webhooks {
    client: Client,
    endpoint: Url,
    secrets: Vec<Secret>,
}

/// A symmetric secret of an endpoint.
#[derive(Clone)]
struct Secret(Vec<u8>);

/// A secret is not `whsec_` and 24 to 64 bytes in base64, as the specification says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a webhook secret is `whsec_` and 24 to 64 bytes in base64")]
pub struct InvalidSecret;

/// A sink of webhooks cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhooksError {
    /// The secret is none.
    #[error(transparent)]
    Secret(#[from] InvalidSecret),
    /// The client cannot be built of its settings.
    #[error("the client of the webhooks cannot be built")]
    Client(#[source] reqwest::Error),
}

impl Webhooks {
    /// Posts to an endpoint with a client of these settings, which decide about TLS and proxies. It
    /// follows no redirect, whatever they say: that would turn the post into a get, whose answer
    /// confirms nothing, and not even its address need be another.
    ///
    /// Let the client have a `connect_timeout` below the relay's time-out and below half its lease:
    /// without one, connecting to an endpoint whose packets are dropped ends with the relay's time-out,
    /// and is a failed attempt.
    ///
    /// # Errors
    /// [`WebhooksError`] when the secret is not of the specification's form, or the client cannot be
    /// built.
    pub fn new(client: ClientBuilder, endpoint: Url, secret: &str) -> Result<Self, WebhooksError> {
        let secrets = vec![Secret::parse(secret)?];
        let client = client.redirect(Policy::none()).build();
        Ok(Self {
            client: client.map_err(WebhooksError::Client)?,
            endpoint,
            secrets,
        })
    }

    /// Signs with a further secret too, while the endpoint changes from one to the other.
    ///
    /// # Errors
    /// [`InvalidSecret`] when the secret is not of the specification's form.
    pub fn also_signed_with(mut self, secret: &str) -> Result<Self, InvalidSecret> {
        self.secrets.push(Secret::parse(secret)?);
        Ok(self)
    }

    fn headers(
        &self,
        envelope: &Envelope,
        timestamp: u64,
    ) -> Result<HeaderMap, Box<dyn Error + Send + Sync>> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &envelope.message.headers {
            headers.insert(name.parse::<HeaderName>()?, value.parse()?);
        }
        let id = envelope.id.to_string();
        let signatures: Vec<_> = self
            .secrets
            .iter()
            .map(|secret| secret.sign(&id, timestamp, &envelope.message.payload))
            .collect::<Result<_, _>>()?;
        let own = [
            ("webhook-id", id),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signatures.join(" ")),
        ];
        for (name, value) in own {
            headers.insert(HeaderName::from_static(name), value.parse()?);
        }
        Ok(headers)
    }
}

impl Sink for Webhooks {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let headers = self.headers(envelope, now.as_secs());
        let headers = headers.map_err(SinkError::refused)?;
        let post = self.client.post(self.endpoint.clone()).headers(headers);
        let answer = post.body(envelope.message.payload.clone()).send().await;
        // The address may hold a secret of the receiver's.
        let answer = answer.map_err(|error| {
            if error.is_connect() {
                SinkError::unavailable(error.without_url())
            } else {
                SinkError::failed(error.without_url())
            }
        })?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(SinkError::refused("the endpoint is gone: 410")),
            status => Err(SinkError::failed(format!("the endpoint answered {status}"))),
        }
    }
}

impl Secret {
    fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix("whsec_").ok_or(InvalidSecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| InvalidSecret)?;
        if !(24..=64).contains(&bytes.len()) {
            return Err(InvalidSecret);
        }
        Ok(Self(bytes))
    }

    /// `v1,` and HMAC-SHA256 over id, time stamp, and payload, joined by full stops.
    fn sign(
        &self,
        id: &str,
        timestamp: u64,
        payload: &[u8],
    ) -> Result<String, hmac::digest::InvalidLength> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(payload);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        Ok(format!("v1,{signature}"))
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference implementations.
    #[test]
    fn a_signature_is_what_receivers_compute() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").ok();
        let payload = br#"{"test": 2432232314}"#;
        let signature = secret.and_then(|secret| {
            let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
            secret.sign(id, 1_614_265_330, payload).ok()
        });
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature.as_deref(), Some(expected));
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        for bad in [
            "",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_AAAA",
            "whsec_?",
        ] {
            assert!(Secret::parse(bad).is_err(), "{bad}");
        }
    }
}
