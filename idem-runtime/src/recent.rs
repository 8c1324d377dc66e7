//! Which keys this process has lately seen stored.
//!
//! A hint and no more: where it says yes, one read usually spares a retry the transaction of a
//! claim; where it is wrong, that read was for nothing. What is true, only the store knows.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::claim::Identity;

/// How many keys are remembered, in 64 KiB; a newer one takes the place of an older.
const PLACES: u64 = 8192;

/// The numbers of the keys, each in the place that its lowest bits say.
pub(crate) struct Recent {
    hasher: RandomState,
    places: Box<[AtomicU64]>,
}

impl Recent {
    /// Remembers a key.
    pub(crate) fn note(&self, identity: &Identity) {
        let (place, number) = self.place(identity);
        place.store(number, Ordering::Relaxed);
    }

    /// Returns whether the key is remembered.
    pub(crate) fn may_hold(&self, identity: &Identity) -> bool {
        let (place, number) = self.place(identity);
        place.load(Ordering::Relaxed) == number
    }

    fn place(&self, identity: &Identity) -> (&AtomicU64, u64) {
        let number = self.hasher.hash_one(identity);
        // The remainder by the length is below it.
        let place = usize::try_from(number % PLACES).unwrap_or_default();
        (&self.places[place], number)
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recent(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::tenant::Tenant;

    fn identity(key: &str) -> Identity {
        Identity {
            tenant: Tenant::shared(),
            scope: "payments.create".into(),
            key: Key::new(key).expect("a key"),
        }
    }

    #[test]
    fn a_noted_key_is_remembered_and_no_other() {
        let recent = Recent::default();
        recent.note(&identity("noted"));
        assert!(recent.may_hold(&identity("noted")));
        assert!(!recent.may_hold(&identity("another")));
    }

    #[test]
    fn newer_keys_take_the_place_of_older_ones() {
        let recent = Recent::default();
        recent.note(&identity("old"));
        for n in 0..PLACES * 32 {
            recent.note(&identity(&n.to_string()));
        }
        assert!(!recent.may_hold(&identity("old")));
    }
}
