//! The attribute's options for one request, and the claim that they make.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, header};
use uuid::Uuid;

use super::call::{HandleOf, Idempotent, Received};
use crate::claim::Identity;
use crate::engine::Job;
use crate::error::InvalidRequest;
use crate::fingerprint::{Fingerprint, FingerprintedRequest, JsonWriter, JsonWritten};
use crate::given::Given;
use crate::handle::Idempotency;
use crate::key::{InvalidKey, Key};
use crate::policy::{KeySource, Policy};
use crate::store::Backend;
use crate::tenant::{InvalidTenant, Tenant};

/// The values of an attribute's options for one request.
#[derive(Debug)]
#[must_use]
pub struct Options<H> {
    received: Received,
    handle: H,
    given: Given,
}

impl<DB: HandleOf> Idempotent<(), DB> {
    /// Begins to collect the options.
    #[doc(hidden)]
    pub fn options(self, policy: &Policy) -> Options<DB::Handle> {
        Options {
            received: self.received,
            handle: self.handle,
            given: Given::new(policy),
        }
    }
}

impl<H> Options<H> {
    /// Takes the tenant's identifier.
    ///
    /// The expansion asks the trait for it, and not this method: rustc then underlines the value,
    /// and does not go on about a bound that is written here.
    #[allow(clippy::needless_pass_by_value, reason = "what the trait has returned")]
    pub fn tenant(mut self, tenant: Cow<'_, str>) -> Self {
        self.given.tenant(&*tenant);
        self
    }

    /// Says that all callers share their keys.
    pub fn shared_tenant(mut self) -> Self {
        self.given.tenant = Some(Tenant::shared());
        self
    }

    /// Takes the key from a value.
    #[allow(clippy::needless_pass_by_value, reason = "what the trait has returned")]
    pub fn key(mut self, key: Cow<'_, str>) -> Self {
        self.given.key(&key);
        self
    }

    /// Takes a value in the place of the whole request.
    pub fn fingerprint(mut self, write: impl FnOnce(JsonWriter<'_, '_>) -> JsonWritten) -> Self {
        self.given.fingerprint(write);
        self
    }

    /// Takes a ttl that is no constant.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.given.ttl(ttl);
        self
    }
}

impl Options<()> {
    /// Takes the handle from where the `store` option says.
    pub fn store<DB: Backend>(self, handle: &Idempotency<DB>) -> Options<Idempotency<DB>> {
        Options {
            received: self.received,
            handle: handle.clone(),
            given: self.given,
        }
    }
}

impl<DB: Backend> Options<Idempotency<DB>> {
    /// Takes the handle, and lays its overrides over the policy.
    pub(super) fn with_overrides(&mut self) -> (Idempotency<DB>, Policy) {
        self.given.policy = self.handle.effective(self.given.policy);
        (self.handle.clone(), self.given.policy)
    }

    /// Settles key, tenant, and fingerprint, in this order.
    pub(super) fn into_claim(self) -> Result<Claimed, InvalidRequest> {
        let Self {
            received, given, ..
        } = self;
        let Given {
            policy,
            tenant,
            key,
            fingerprint,
            invalid,
        } = given;
        let key = match policy.key {
            // A safe method has no effect to protect (RFC 9110 section 9.2.1).
            _ if is_safe(&received.method) => None,
            KeySource::Header(name) => key_in_header(&received.headers, name)?,
            KeySource::Arguments => key,
        };
        if let Some(invalid) = invalid {
            return Err(invalid);
        }
        let scope = Cow::Borrowed(policy.scope);
        let tenant = tenant.ok_or(InvalidTenant::Empty)?;
        let Some(key) = key else {
            if policy.required && !is_safe(&received.method) {
                return Err(InvalidRequest::KeyMissing);
            }
            let key = Key::new(&Uuid::new_v4().to_string())?;
            let identity = Arc::new(Identity { tenant, scope, key });
            let fingerprint = Fingerprint::from_bytes([0; 32]);
            return Ok(Claimed::WithoutKey(Job {
                identity,
                fingerprint,
                policy,
            }));
        };
        let fingerprint = match fingerprint {
            Some(fingerprint) => fingerprint,
            None => of_request(&received),
        };
        let identity = Arc::new(Identity { tenant, scope, key });
        Ok(Claimed::WithKey(Job {
            identity,
            fingerprint,
            policy,
        }))
    }
}

pub(super) enum Claimed {
    WithKey(Job),
    WithoutKey(Job),
}

fn is_safe(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
    )
}

fn key_in_header(headers: &HeaderMap, name: &str) -> Result<Option<Key>, InvalidKey> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(InvalidKey::Several);
    }
    Key::from_field_value(value.as_bytes()).map(Some)
}

fn of_request(received: &Received) -> Fingerprint {
    Fingerprint::of_request(&FingerprintedRequest {
        method: received.method.as_str(),
        target: &received.target,
        content_type: received
            .headers
            .get(header::CONTENT_TYPE)
            .map(HeaderValue::as_bytes),
        body: received.body.as_ref(),
    })
}
