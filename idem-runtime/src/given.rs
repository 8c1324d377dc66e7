//! What an attribute's options say about one request or one message.

use std::time::Duration;

use serde::Serialize;

use crate::error::InvalidRequest;
use crate::fingerprint::Fingerprint;
use crate::key::{Key, KeyValue};
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

    pub(crate) fn key<K: KeyValue + ?Sized>(&mut self, key: &K) {
        match Key::new(&key.key_value()) {
            Ok(key) => self.key = Some(key),
            Err(why) => self.refuse(why.into()),
        }
    }

    pub(crate) fn fingerprint<T: Serialize + ?Sized>(&mut self, value: &T) {
        match Fingerprint::of_value(value) {
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
