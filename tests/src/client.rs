//! The client of the tests: one request, one answer.

use std::future::IntoFuture;
use std::pin::Pin;

use axum::http::{HeaderMap, HeaderValue, Method};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

/// A request that is sent when awaited; of account `alice` and without a body, unless it says
/// otherwise.
#[derive(Debug)]
#[must_use = "a request is sent when awaited"]
pub struct Request {
    builder: reqwest::RequestBuilder,
    authorization: Option<String>,
}

impl Request {
    /// Begins a request.
    pub fn new(client: &reqwest::Client, method: Method, url: String) -> Self {
        let authorization = Some("Bearer alice/1".to_owned());
        Self {
            builder: client.request(method, url),
            authorization,
        }
    }

    /// Sends this idempotency key, as it stands.
    pub fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Sends as this account.
    pub fn account(self, account: &str) -> Self {
        self.token(&format!("{account}/1"))
    }

    /// Sends this token: an account, a slash, and a number; the number 0 is revoked.
    pub fn token(mut self, token: &str) -> Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// Sends no credentials.
    pub fn anonymous(mut self) -> Self {
        self.authorization = None;
        self
    }

    /// Adds a header line.
    ///
    /// # Panics
    /// When the value cannot be one.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref()).expect("a header value");
        self.builder = self.builder.header(name, value);
        self
    }

    /// Sends this body without a content type.
    pub fn body(mut self, body: impl Into<reqwest::Body>) -> Self {
        self.builder = self.builder.body(body);
        self
    }

    /// Sends this text as JSON.
    pub fn json(self, body: impl Into<reqwest::Body>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// Sends this text as a form.
    pub fn form(self, body: &'static str) -> Self {
        self.header("content-type", "application/x-www-form-urlencoded")
            .body(body)
    }

    /// Sends these parts.
    pub fn multipart(mut self, form: reqwest::multipart::Form) -> Self {
        self.builder = self.builder.multipart(form);
        self
    }

    async fn send(mut self) -> Result<Answer, reqwest::Error> {
        if let Some(authorization) = self.authorization {
            self.builder = self.builder.header("authorization", authorization);
        }
        let response = self.builder.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await?;
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    /// Sends it now, and leaves the answer for later.
    #[must_use]
    pub fn start(self) -> Pending {
        Pending(tokio::spawn(self.send()))
    }
}

/// A request that is on its way.
#[derive(Debug)]
pub struct Pending(JoinHandle<Result<Answer, reqwest::Error>>);

impl Pending {
    /// Waits for the answer.
    ///
    /// # Panics
    /// When there is none.
    pub async fn answer(self) -> Answer {
        self.0.await.expect("no panic").expect("the server answers")
    }

    /// Waits for the answer; `None` when the connection ended before.
    ///
    /// # Panics
    /// When the test itself does.
    pub async fn answer_if_any(self) -> Option<Answer> {
        self.0.await.expect("no panic").ok()
    }

    /// Leaves without waiting for the answer.
    pub fn leave(self) {
        self.0.abort();
    }
}

impl IntoFuture for Request {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.send().await.expect("the server answers") })
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The header fields.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// A refusal of the library, as its body says it.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The last part of the `type`.
    pub slug: String,
    /// The `retryable` member.
    pub retryable: bool,
}

impl Answer {
    /// Says whether this is a replay.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.headers
            .get("idempotent-replayed")
            .is_some_and(|value| value == "true")
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// When it is no such JSON.
    #[must_use]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in the body of {self:?}"))
    }

    /// Returns the problem's kind, after having checked that it is a whole problem (RFC 9457).
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let content_type = self.headers.get("content-type");
        assert!(
            content_type.is_some_and(|value| value == "application/problem+json"),
            "no problem: {self:?}"
        );
        let problem: serde_json::Value = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        for member in ["title", "detail"] {
            assert!(
                problem[member]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{self:?}"
            );
        }
        let kind = problem["type"].as_str().unwrap_or_default();
        let slug = kind
            .strip_prefix("urn:idem:problem:")
            .expect("a stable type")
            .to_owned();
        let retryable = problem["retryable"]
            .as_bool()
            .expect("`retryable` is there");
        let seconds = |value: &HeaderValue| value.to_str().ok()?.parse::<u32>().ok();
        let soon = self.headers.get("retry-after").map(seconds);
        let is_soon = matches!(soon, Some(Some(1..=5)));
        let must_say_when = self.status == 503 || slug == "in-progress";
        assert_eq!(soon.is_some(), must_say_when, "Retry-After of {self:?}");
        assert_eq!(is_soon, must_say_when, "Retry-After of {self:?}");
        Refusal { slug, retryable }
    }

    /// Asserts that the library refused with this status and kind.
    ///
    /// # Panics
    /// When it did not.
    pub fn assert_refused(&self, status: u16, slug: &str) {
        assert_eq!(
            (self.status, self.refusal().slug.as_str()),
            (status, slug),
            "{self:?}"
        );
        assert!(!self.is_replay(), "{self:?}");
    }

    /// Asserts that this is the replay of `first`, byte for byte.
    ///
    /// # Panics
    /// When it is not.
    pub fn assert_replays(&self, first: &Self) {
        assert!(self.is_replay(), "no replay: {self:?}");
        assert!(!first.is_replay(), "a replay itself: {first:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
        assert_eq!(self.stable_headers(), first.stable_headers());
    }

    /// The headers that an answer and its replay have in common.
    fn stable_headers(&self) -> Vec<(String, Vec<u8>)> {
        let changing = ["date", "idempotent-replayed", "set-cookie"];
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let mut headers: Vec<_> = headers
            .filter(|(name, _)| !changing.contains(&name.as_str()))
            .collect();
        // The order of the lines of one field counts, the order of the fields does not.
        headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        headers
    }
}
