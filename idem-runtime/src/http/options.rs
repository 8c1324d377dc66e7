//! The attribute's options for one request, and the claim that they make.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Method, header};
use uuid::Uuid;

use super::call::{HandleOf, Idempotent, Received};
use crate::claim::Identity;
use crate::engine::Job;
use crate::error::InvalidRequest;
use crate::fingerprint::{Fingerprint, FingerprintedRequest};
use crate::given::{Given, Options};
use crate::handle::Idempotency;
use crate::key::{InvalidKey, Key};
use crate::policy::{KeySource, Policy};
use crate::store::Backend;
use crate::tenant::InvalidTenant;

/// A request, and the handle for it: `()` until the `store` option has said where it is.
#[derive(Debug)]
pub struct Requested<H> {
    received: Received,
    handle: H,
}

impl<DB: HandleOf> Idempotent<(), DB> {
    /// Begins to collect the options.
    #[doc(hidden)]
    pub fn options(self, policy: &Policy) -> Options<Requested<DB::Handle>> {
        let requested = Requested {
            received: self.received,
            handle: self.handle,
        };
        Options::of(requested, policy)
    }
}

impl Options<Requested<()>> {
    /// Takes the handle from where the `store` option says.
    pub fn store<DB: Backend>(
        self,
        handle: &Idempotency<DB>,
    ) -> Options<Requested<Idempotency<DB>>> {
        let source = Requested {
            received: self.source.received,
            handle: handle.clone(),
        };
        Options {
            source,
            given: self.given,
        }
    }
}

impl<DB: Backend> Options<Requested<Idempotency<DB>>> {
    /// Takes the handle, and lays its overrides over the policy.
    pub(super) fn with_overrides(&mut self) -> (Idempotency<DB>, Policy) {
        let handle = &self.source.handle;
        self.given.policy = handle.effective(self.given.policy);
        (handle.clone(), self.given.policy)
    }

    /// Settles key, tenant, and fingerprint, in this order.
    pub(super) fn into_claim(self) -> Result<Claimed, InvalidRequest> {
        let received = self.source.received;
        let Given {
            policy,
            tenant,
            key,
            fingerprint,
            invalid,
        } = self.given;
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
