//! Whose a key is: a pure function of the stored row, the request, and the database's clock.
//!
//! Nothing here talks to a database or knows HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::record::length_prefixed;
use crate::tenant::Tenant;

/// Milliseconds since the Unix epoch, read from the database's clock.
pub(crate) type Timestamp = i64;

/// What decides about a key: the stored row without its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRow {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) state: State,
    /// The end of the lease, for a leased run that is not over.
    pub(crate) locked_until: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
}

/// The state of a stored key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A leased run has claimed the key; whether it still may is a matter of the lease.
    InProgress,
    /// The response is stored.
    Finished,
    /// The run is over and its effect stands, but its response was not kept.
    Tombstone,
    /// A step may or may not have happened, and an operator has to find out.
    Parked,
}

/// What a request may do with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The key is new, or past its ttl: run.
    Run,
    /// The lease of the last attempt is over: run as the next attempt.
    TakeOver,
    /// The same request is running under a lease.
    InProgress,
    /// The same request has finished: replay its response.
    Replay,
    /// The same request has finished, but its response was not kept.
    NotKept,
    /// The same request waits for an operator.
    NeedsReconciliation,
    /// The key belongs to another request.
    Mismatch,
}

/// Decides by the row alone; a key in flight elsewhere in atomic mode has no row yet,
/// and the store's gate tells of it.
pub(crate) fn decide(row: Option<&KeyRow>, fingerprint: &Fingerprint, now: Timestamp) -> Decision {
    let Some(row) = row else {
        return Decision::Run;
    };
    let leased = row.locked_until.is_some_and(|until| now < until);
    // Neither a live lease nor an open question ends with the ttl.
    if row.expires_at <= now && !leased && row.state != State::Parked {
        return Decision::Run;
    }
    if row.fingerprint != *fingerprint {
        return Decision::Mismatch;
    }
    match row.state {
        State::Finished => Decision::Replay,
        State::Tombstone => Decision::NotKept,
        State::Parked => Decision::NeedsReconciliation,
        State::InProgress if leased => Decision::InProgress,
        State::InProgress => Decision::TakeOver,
    }
}

/// What makes a key one key: the tenant, the scope, and the key itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity {
    pub(crate) tenant: Tenant,
    pub(crate) scope: Cow<'static, str>,
    pub(crate) key: Key,
}

impl Identity {
    /// The identity as bytes; two identities never give the same ones.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let parts = [&*self.scope, self.tenant.as_str(), self.key.as_str()];
        length_prefixed(parts.map(str::as_bytes))
    }
}

/// The facts about the claim under which a handler runs.
///
/// A handler asks for it with a `claim: &Claim` parameter. A run without a key
/// (`required = false`, or a safe method) has a random one of its own, which nobody can ask for.
#[derive(Clone, Debug)]
pub struct Claim {
    identity: Arc<Identity>,
    attempt: u32,
}

impl Claim {
    pub(crate) const fn new(identity: Arc<Identity>, attempt: u32) -> Self {
        Self { identity, attempt }
    }

    /// Returns the idempotency key, unquoted.
    #[must_use]
    pub fn key(&self) -> &str {
        self.identity.key.as_str()
    }

    /// Returns the scope, as the attribute names it.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.identity.scope
    }

    /// Returns the tenant; empty for `tenant = shared`.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.identity.tenant.as_str()
    }

    /// Returns which attempt this is, from 1. In atomic mode it is always 1, since a run that
    /// did not finish left no trace.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Derives a key for a request to another service: the same for every attempt under this
    /// claim, another for each `label`, and without a way back to the client's key.
    ///
    /// It is a UUID of version 8 (RFC 9562 section 5.8), 36 characters as text, from the first 16
    /// bytes of SHA-256 over scope, tenant, key, and label, each length-prefixed.
    #[must_use]
    pub fn derive_key(&self, label: &str) -> Uuid {
        let digest = Sha256::new()
            .chain_update(b"idem derived key 1")
            .chain_update(self.identity.to_bytes())
            .chain_update(length_prefixed([label.as_bytes()]))
            .finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Uuid::new_v8(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Fingerprint = Fingerprint::from_bytes([1; 32]);
    const OTHER: Fingerprint = Fingerprint::from_bytes([2; 32]);

    fn row(state: State, locked_until: Option<Timestamp>) -> KeyRow {
        KeyRow {
            fingerprint: OURS,
            state,
            locked_until,
            expires_at: 100,
        }
    }

    #[test]
    fn a_key_without_a_row_runs() {
        assert_eq!(decide(None, &OURS, 0), Decision::Run);
    }

    #[test]
    fn a_key_past_its_ttl_runs_for_any_request() {
        for state in [State::Finished, State::Tombstone, State::InProgress] {
            let row = row(state, None);
            assert_eq!(decide(Some(&row), &OURS, 100), Decision::Run);
            assert_eq!(decide(Some(&row), &OTHER, 100), Decision::Run);
            assert_ne!(decide(Some(&row), &OURS, 99), Decision::Run);
        }
    }

    #[test]
    fn another_request_never_gets_the_answer_nor_the_key() {
        for state in [
            State::Finished,
            State::Tombstone,
            State::InProgress,
            State::Parked,
        ] {
            for locked_until in [None, Some(50)] {
                let row = row(state, locked_until);
                assert_eq!(decide(Some(&row), &OTHER, 0), Decision::Mismatch);
            }
        }
    }

    #[test]
    fn a_finished_key_replays_and_a_tombstone_never_runs_again() {
        assert_eq!(
            decide(Some(&row(State::Finished, None)), &OURS, 0),
            Decision::Replay
        );
        assert_eq!(
            decide(Some(&row(State::Tombstone, None)), &OURS, 0),
            Decision::NotKept
        );
    }

    #[test]
    fn a_lease_holds_until_its_end_and_not_longer() {
        let row = row(State::InProgress, Some(50));
        assert_eq!(decide(Some(&row), &OURS, 49), Decision::InProgress);
        assert_eq!(decide(Some(&row), &OURS, 50), Decision::TakeOver);
    }

    #[test]
    fn a_live_lease_outlives_the_ttl() {
        let row = row(State::InProgress, Some(150));
        assert_eq!(decide(Some(&row), &OURS, 120), Decision::InProgress);
    }

    #[test]
    fn an_open_question_outlives_the_ttl() {
        let row = row(State::Parked, None);
        assert_eq!(
            decide(Some(&row), &OURS, 1_000),
            Decision::NeedsReconciliation
        );
    }

    fn claim(tenant: &str, scope: &'static str, key: &str) -> Claim {
        let identity = Identity {
            tenant: Tenant::new(tenant).expect("a tenant"),
            scope: scope.into(),
            key: Key::new(key).expect("a key"),
        };
        Claim::new(Arc::new(identity), 1)
    }

    /// These vectors never change: a derived key that changed with a release would
    /// charge a card twice.
    #[test]
    fn derived_keys_are_the_committed_ones() {
        let vectors = [
            (
                ("acct-1", "payments.create", "8e03978e", "psp.charge"),
                "ac2612e4-fe21-8736-834e-2c2121b841aa",
            ),
            (
                ("acct-1", "payments.create", "8e03978e", "psp.refund"),
                "f85ec32e-b671-85fb-9744-976804d822b1",
            ),
            (
                ("a:b", "s", "c", "x"),
                "c35c6904-2f95-8fc3-8863-0844a932fd84",
            ),
            (
                ("a", "s", "b:c", "x"),
                "6645d09a-2361-8be2-90ed-83d7a735eea7",
            ),
            (("a", "s", "k", ""), "7ce8297c-16c1-8f92-a9ee-8f1e898e44ef"),
        ];
        for ((tenant, scope, key, label), expected) in vectors {
            let derived = claim(tenant, scope, key).derive_key(label);
            assert_eq!(derived.to_string(), expected);
        }
    }

    #[test]
    fn derived_keys_differ_by_label_and_identity_and_not_by_attempt() {
        let base = claim("a", "s", "b:c").derive_key("x");
        assert_ne!(base, claim("a", "s", "b:c").derive_key("y"));
        assert_ne!(base, claim("a:b", "s", "c").derive_key("x"));
        assert_ne!(base, claim("a", "t", "b:c").derive_key("x"));
        let second = Claim {
            attempt: 2,
            ..claim("a", "s", "b:c")
        };
        assert_eq!(base, second.derive_key("x"));
    }
}
