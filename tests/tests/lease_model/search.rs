//! Breadth-first search over every world that the protocol can reach.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::world::{Protocol, Violation, World};

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The shortest way to each violation, as "who what".
    pub(crate) violations: BTreeMap<Violation, Vec<String>>,
    /// Every transition that was taken.
    pub(crate) transitions: BTreeSet<&'static str>,
    pub(crate) worlds: usize,
}

/// How a world was reached: from which one, by whom, and how.
type Origin = (usize, &'static str, &'static str);

/// Looks at every world, or stops at the violation that is looked for.
pub(crate) fn search(protocol: Protocol, wanted: Option<Violation>) -> Found {
    let start = World::default();
    let mut worlds = vec![start];
    let mut origins: Vec<Origin> = vec![(0, "", "")];
    let mut known = HashSet::<World, BuildHasherDefault<QuickHasher>>::default();
    known.insert(start);
    let mut found = Found::default();
    let mut next = 0;
    while let Some(world) = worlds.get(next).copied() {
        for step in world.moves(protocol) {
            let origin = (next, step.who, step.what);
            found.transitions.insert(step.what);
            for violation in step.broken {
                let way = || way(&origins, origin);
                found.violations.entry(violation).or_insert_with(way);
                if wanted == Some(violation) {
                    return found;
                }
            }
            if known.insert(step.world) {
                worlds.push(step.world);
                origins.push(origin);
            }
        }
        next += 1;
    }
    found.worlds = worlds.len();
    found
}

fn way(origins: &[Origin], last: Origin) -> Vec<String> {
    let mut way = Vec::new();
    let mut origin = last;
    while !origin.1.is_empty() {
        way.push(format!("{} {}", origin.1, origin.2));
        origin = origins[origin.0];
    }
    way.reverse();
    way
}

/// The standard hasher takes most of the time of an unoptimised search.
#[derive(Debug, Default)]
struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.unsigned_abs() as u64);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
