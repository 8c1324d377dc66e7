//! Runs a target without a fuzzer: on each file of its corpus, and on mutations of them.
//! `IDEM_FUZZ_ROUNDS` says on how many.

use std::env;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

/// One change of an input.
#[derive(Clone, Debug)]
enum Edit {
    /// Some bytes in the place of others.
    Bytes(Index, Index, Vec<u8>),
    /// A piece of another file in the place of others.
    Piece(Index, Index, [Index; 3]),
    /// A piece once more, elsewhere.
    Copy([Index; 3]),
    /// One bit.
    Bit(Index, u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<Index>;
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    prop_oneof![
        (index(), index(), bytes).prop_map(|(at, end, bytes)| Edit::Bytes(at, end, bytes)),
        (index(), index(), any::<[Index; 3]>())
            .prop_map(|(at, end, piece)| Edit::Piece(at, end, piece)),
        any::<[Index; 3]>().prop_map(Edit::Copy),
        (index(), 0..8_u8).prop_map(|(at, bit)| Edit::Bit(at, bit)),
    ]
}

impl Edit {
    fn apply(&self, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
        let within = |at: &Index, length: usize| at.index(length + 1);
        // Mostly a few bytes: the rest stays sound.
        let span = |at: &Index, end: &Index, length: usize| {
            let at = within(at, length);
            at..length.min(at + end.index(9))
        };
        match self {
            Self::Bytes(at, end, bytes) => {
                let span = span(at, end, input.len());
                drop(input.splice(span, bytes.iter().copied()));
            }
            Self::Piece(at, end, [file, from, to]) => {
                let file = file.get(corpus);
                let piece = file[span(from, to, file.len())].to_vec();
                let span = span(at, end, input.len());
                drop(input.splice(span, piece));
            }
            Self::Copy([at, end, to]) => {
                let piece = input[span(at, end, input.len())].to_vec();
                let to = within(to, input.len());
                drop(input.splice(to..to, piece));
            }
            Self::Bit(at, bit) => {
                if !input.is_empty() {
                    let at = at.index(input.len());
                    input[at] ^= 1 << bit;
                }
            }
        }
    }
}

pub(super) fn run(target: &str, holds: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus");
    let files = fs::read_dir(folder.join(target)).expect("a corpus");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let corpus: Vec<_> = files
        .iter()
        .map(|file| fs::read(file).expect("a file"))
        .collect();
    assert!(!corpus.is_empty());
    for input in &corpus {
        holds(input);
    }

    let rounds = env::var("IDEM_FUZZ_ROUNDS").ok();
    let config = ProptestConfig {
        cases: rounds.map_or(3_000, |rounds| rounds.parse().expect("a number of rounds")),
        // What fails is kept in the corpus.
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mutations =
        (any::<Index>(), prop::collection::vec(edit(), 1..8)).prop_map(|(file, edits)| {
            let mut input = file.get(&corpus).clone();
            for edit in edits {
                edit.apply(&corpus, &mut input);
            }
            input
        });
    let result = TestRunner::new(config).run(&mutations, |input| {
        holds(&input);
        Ok(())
    });
    if let Err(found) = result {
        panic!("{found}");
    }
}
