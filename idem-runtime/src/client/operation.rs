//! One thing that the caller wants done once.

use std::fmt;

use http::{HeaderName, HeaderValue};
use reqwest::{Request, RequestBuilder};
use uuid::Uuid;

use super::error::OperationError;
use crate::key::{InvalidKey, Key, KeyValue};

/// One thing that the caller wants done once, for example one payment.
///
/// It can be sent again after it was given up; its key stays the same.
pub struct Operation {
    pub(super) http: reqwest::Client,
    pub(super) request: Request,
    pub(super) key: Option<Key>,
}

impl Operation {
    /// Makes an operation of a request, with a new random key (UUID version 4).
    ///
    /// A request that already has an `Idempotency-Key` keeps it. A safe method (GET, HEAD, OPTIONS,
    /// TRACE) gets none, since it does not need one.
    ///
    /// # Errors
    ///
    /// - [`OperationError::Request`] when the request could not be built.
    /// - [`OperationError::Key`] when the request has a key of its own which is not 1 to 255
    ///   characters of visible ASCII, or has two.
    /// - [`OperationError::BodyNotReplayable`] when the body is a stream, as it is with
    ///   `reqwest::multipart`.
    ///
    /// # Examples
    ///
    /// ```
    /// use idem_runtime::client::Operation;
    ///
    /// let http = reqwest::Client::new();
    /// let payment = Operation::new(http.post("https://api.example.com/payments").body("500 usd"))?;
    /// assert_eq!(payment.key().map(str::len), Some(36));
    /// # Ok::<(), idem_runtime::client::OperationError>(())
    /// ```
    pub fn new(request: RequestBuilder) -> Result<Self, OperationError> {
        Self::builder(request).build()
    }

    /// Makes an operation of a request under a key that is known already: one that was persisted
    /// before a restart, or a natural one such as the number of an order.
    ///
    /// # Errors
    ///
    /// As [`Operation::new`]; [`OperationError::Key`] also when the request itself has another key,
    /// which is never overwritten.
    ///
    /// # Examples
    ///
    /// ```
    /// use idem_runtime::client::Operation;
    ///
    /// # let persisted = String::from("7f9c2ba4-e88f-4827-a160-455076058c2e");
    /// let http = reqwest::Client::new();
    /// let request = http.post("https://api.example.com/payments").body("500 usd");
    /// let resumed = Operation::with_key(request, &persisted)?;
    /// assert_eq!(resumed.key(), Some(&*persisted));
    /// # Ok::<(), idem_runtime::client::OperationError>(())
    /// ```
    pub fn with_key<K>(request: RequestBuilder, key: &K) -> Result<Self, OperationError>
    where
        K: KeyValue + ?Sized,
    {
        Self::builder(request).key(key).build()
    }

    /// Makes an operation of a request as it is, for a server that knows no idempotency keys.
    ///
    /// It is retried only if its method is safe, or if it has an `Idempotency-Key` after all.
    ///
    /// # Errors
    ///
    /// As [`Operation::new`].
    pub fn without_key(request: RequestBuilder) -> Result<Self, OperationError> {
        Self::of(request, &default_header())
    }

    /// Begins an operation whose key is in a header of another name.
    pub fn builder(request: RequestBuilder) -> OperationBuilder {
        OperationBuilder {
            request,
            header: default_header(),
            key: None,
        }
    }

    /// Takes a request with the key that it has.
    fn of(request: RequestBuilder, header: &HeaderName) -> Result<Self, OperationError> {
        let (http, request) = request.build_split();
        let mut request = request.map_err(OperationError::Request)?;
        let streams = |body: &reqwest::Body| body.as_bytes().is_none();
        if request.body().is_some_and(streams) {
            return Err(OperationError::BodyNotReplayable);
        }
        let key = own_key(&mut request, header)?;
        Ok(Self { http, request, key })
    }

    /// Returns the key that every attempt has; `None` when there is none.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(Key::as_str)
    }
}

/// What an [`Operation`] is made of, one by one.
///
/// # Examples
///
/// For a handler whose attribute says `key = header("webhook-id")`:
///
/// ```
/// use idem_runtime::client::Operation;
/// use reqwest::header::HeaderName;
///
/// let http = reqwest::Client::new();
/// let delivery = Operation::builder(http.post("https://shop.example.com/webhooks").body("{}"))
///     .key_header(HeaderName::from_static("webhook-id"))
///     .key("msg_17")
///     .build()?;
/// assert_eq!(delivery.key(), Some("msg_17"));
/// # Ok::<(), idem_runtime::client::OperationError>(())
/// ```
#[must_use = "`build` makes the operation"]
pub struct OperationBuilder {
    request: RequestBuilder,
    header: HeaderName,
    key: Option<String>,
}

impl OperationBuilder {
    /// Sets in which header the server expects the key; `idempotency-key` by default.
    pub fn key_header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    /// Sets the key, as [`Operation::with_key`] does.
    pub fn key<K: KeyValue + ?Sized>(mut self, key: &K) -> Self {
        self.key = Some(key.key_value().into_owned());
        self
    }

    /// Makes the operation; with a new random key if neither the request nor the builder has one,
    /// and its method is not safe.
    ///
    /// # Errors
    ///
    /// As [`Operation::new`] and [`Operation::with_key`].
    pub fn build(self) -> Result<Operation, OperationError> {
        let given = self.key.as_deref().map(Key::new).transpose()?;
        let operation = Operation::of(self.request, &self.header)?;
        let key = match (given, &operation.key) {
            (None, Some(_)) => return Ok(operation),
            (Some(given), Some(own)) if given == *own => return Ok(operation),
            (Some(_), Some(_)) => return Err(InvalidKey::Several.into()),
            (None, None) if operation.request.method().is_safe() => return Ok(operation),
            (None, None) => Key::new(&Uuid::new_v4().to_string())?,
            (Some(given), None) => given,
        };
        keyed(operation, self.header, key)
    }
}

fn keyed(
    mut operation: Operation,
    header: HeaderName,
    key: Key,
) -> Result<Operation, OperationError> {
    let mut value =
        HeaderValue::from_str(&key.to_field_value()).map_err(|_| InvalidKey::Character)?;
    value.set_sensitive(true);
    operation.request.headers_mut().insert(header, value);
    operation.key = Some(key);
    Ok(operation)
}

fn default_header() -> HeaderName {
    HeaderName::from_static("idempotency-key")
}

/// The key that the request has already; its value is kept out of debug output from here on.
fn own_key(request: &mut Request, header: &HeaderName) -> Result<Option<Key>, InvalidKey> {
    let lines = request.headers_mut().iter_mut();
    let mut keys = lines.filter(|(name, _)| *name == header);
    let Some((_, value)) = keys.next() else {
        return Ok(None);
    };
    if keys.next().is_some() {
        return Err(InvalidKey::Several);
    }
    value.set_sensitive(true);
    Key::from_field_value(value.as_bytes()).map(Some)
}

/// Does not show the key, the address, or the headers.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("method", self.request.method())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Does not show the key, the address, or the headers.
impl fmt::Debug for OperationBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationBuilder")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that shows or compresses headers on the way is to keep it.
    #[test]
    fn the_header_of_the_key_is_marked_as_sensitive() {
        let request = || reqwest::Client::new().post("http://localhost/payments");
        let own = request().header("idempotency-key", "own");
        for operation in [
            Operation::new(request()),
            Operation::with_key(request(), "given"),
            Operation::new(own),
        ] {
            let operation = operation.expect("an operation");
            assert!(operation.request.headers()["idempotency-key"].is_sensitive());
        }
    }
}
