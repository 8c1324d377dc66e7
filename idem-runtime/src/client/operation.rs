//! One thing that the caller wants done once.

use std::fmt;

use http::HeaderValue;
use reqwest::{Request, RequestBuilder};
use uuid::Uuid;

use super::error::OperationError;
use crate::key::{InvalidKey, Key, KeyValue};

const HEADER: &str = "idempotency-key";

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
        let operation = Self::without_key(request)?;
        if operation.key.is_some() || operation.request.method().is_safe() {
            return Ok(operation);
        }
        let key = Key::new(&Uuid::new_v4().to_string())?;
        operation.keyed(key)
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
        let key = Key::new(&key.key_value())?;
        let operation = Self::without_key(request)?;
        match &operation.key {
            None => operation.keyed(key),
            Some(own) if *own == key => Ok(operation),
            Some(_) => Err(InvalidKey::Several.into()),
        }
    }

    /// Makes an operation of a request as it is, for a server that knows no idempotency keys.
    ///
    /// It is retried only if its method is safe, or if it has an `Idempotency-Key` after all.
    ///
    /// # Errors
    ///
    /// As [`Operation::new`].
    pub fn without_key(request: RequestBuilder) -> Result<Self, OperationError> {
        let (http, request) = request.build_split();
        let mut request = request.map_err(OperationError::Request)?;
        let streams = |body: &reqwest::Body| body.as_bytes().is_none();
        if request.body().is_some_and(streams) {
            return Err(OperationError::BodyNotReplayable);
        }
        let key = own_key(&mut request)?;
        Ok(Self { http, request, key })
    }

    fn keyed(mut self, key: Key) -> Result<Self, OperationError> {
        let mut value = HeaderValue::from_str(key.as_str()).map_err(|_| InvalidKey::Character)?;
        value.set_sensitive(true);
        self.request.headers_mut().insert(HEADER, value);
        self.key = Some(key);
        Ok(self)
    }

    /// Returns the key that every attempt has; `None` when there is none.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(Key::as_str)
    }
}

/// The key that the request has already; its value is kept out of debug output from here on.
fn own_key(request: &mut Request) -> Result<Option<Key>, InvalidKey> {
    let lines = request.headers_mut().iter_mut();
    let mut keys = lines.filter(|(name, _)| *name == HEADER);
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
