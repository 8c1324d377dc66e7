//! What an attribute's options say about one request or one message.

use std::borrow::Cow;
use std::time::Duration;

use crate::error::InvalidRequest;
use crate::fingerprint::{Fingerprint, JsonWriter, JsonWritten};
use crate::key::Key;
use crate::policy::{Policy, TTL_RANGE};
use crate::tenant::{Tenant, TenantId};

/// The options of one request or one message, which the expansion collects.
#[derive(Debug)]
#[must_use]
pub struct Options<S> {
    /// The request, and where its handle is; nothing beside a message.
    pub(crate) source: S,
    pub(crate) given: Given,
}

impl<S> Options<S> {
    pub(crate) const fn of(source: S, policy: &Policy) -> Self {
        Self {
            source,
            given: Given::new(policy),
        }
    }

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

    /// Takes a value in the place of the whole request, or the message.
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

/// The options' values so far. The first that cannot be used is remembered, so that the
/// expansion is a chain without an error in between.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) policy: Policy,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) key: Option<Key>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) invalid: Option<InvalidRequest>,
}

impl Given {
    pub(crate) const fn new(policy: &Policy) -> Self {
        Self {
            policy: *policy,
            tenant: None,
            key: None,
            fingerprint: None,
            invalid: None,
        }
    }

    pub(crate) fn tenant<T: TenantId + ?Sized>(&mut self, tenant: &T) {
        match Tenant::new(tenant) {
            Ok(tenant) => self.tenant = Some(tenant),
            Err(why) => self.refuse(why.into()),
        }
    }

    pub(crate) fn key(&mut self, key: &str) {
        match Key::new(key) {
            Ok(key) => self.key = Some(key),
            Err(why) => self.refuse(why.into()),
        }
    }

    pub(crate) fn fingerprint(&mut self, write: impl FnOnce(JsonWriter<'_, '_>) -> JsonWritten) {
        match Fingerprint::of_written(write) {
            Ok(fingerprint) => self.fingerprint = Some(fingerprint),
            Err(error) => self.refuse(InvalidRequest::Fingerprint(error)),
        }
    }

    pub(crate) fn ttl(&mut self, ttl: Duration) {
        if TTL_RANGE.contains(&ttl) {
            self.policy.ttl = ttl;
        } else {
            self.refuse(InvalidRequest::Ttl(ttl));
        }
    }

    fn refuse(&mut self, why: InvalidRequest) {
        self.invalid.get_or_insert(why);
    }
}
