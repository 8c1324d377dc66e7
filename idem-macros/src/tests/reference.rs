//! The reference quotes each message as it is printed.

use std::fs;
use std::path::Path;

use super::{BOTH, function, tokens};
use crate::check::check;
use crate::diag::Mistakes;
use crate::options::Options;

/// One `compile_fail` example, and the quotation above it.
struct Example {
    quoted: String,
    options: String,
    item: String,
}

fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../idem-runtime/src/idempotent.md");
    let text = fs::read_to_string(path).expect("the reference");
    let (_, errors) = text.split_once("# Errors\n").expect("its errors");
    let mut examples = Vec::new();
    for part in errors.split("\n\n> ").skip(1) {
        let (quoted, rest) = part
            .split_once("\n\n```compile_fail\n")
            .expect("an example");
        let (code, _) = rest.split_once("\n```").expect("its end");
        let (_, code) = code.split_once("#[idempotent(").expect("the attribute");
        let (options, item) = code.split_once(")]\n").expect("its end");
        examples.push(Example {
            quoted: quoted.replace("\\\n> ", "\n"),
            options: options.to_owned(),
            // A method stands in a block.
            item: item
                .trim_end()
                .strip_suffix("\n}")
                .map_or(item, |method| {
                    let in_block = code.contains("\n    async fn");
                    if in_block { method } else { item }
                })
                .to_owned(),
        });
    }
    examples
}

#[test]
fn the_reference_quotes_what_is_printed() {
    let (ours, by_rustc): (Vec<_>, Vec<_>) = examples()
        .into_iter()
        .partition(|example| example.quoted.contains("\nhelp: "));
    assert!(ours.len() > 60, "{} messages", ours.len());
    assert!(by_rustc.len() < 10, "{} messages of rustc", by_rustc.len());
    for Example {
        quoted,
        options,
        item,
    } in ours
    {
        if quoted.contains("is for functions") {
            continue;
        }
        let mistakes = Mistakes::new();
        let handler = function(tokens(&item));
        let options = Options::parse(tokens(&options), &mistakes);
        check(&handler, &options, BOTH, &mistakes);
        assert_eq!(mistakes.messages(), [quoted]);
    }
}
