//! What an attribute's options say about one request or one message.

use std::time::Duration;

use crate::error::InvalidRequest;
use crate::fingerprint::{Fingerprint, JsonWriter, JsonWritten};
use crate::key::Key;
use crate::policy::{Policy, TTL_RANGE};
use crate::tenant::{Tenant, TenantId};

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
