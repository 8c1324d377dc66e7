//! What rustc prints for the same mistake in a plain axum handler and in an annotated one. The cases
//! stand in `fail/compared_*`, one directory for each kind of handler; `ui.rs` compiles them.

use std::fs;
use std::path::Path;

use expect_test::expect_file;

const MISTAKES: [(&str, &str); 11] = [
    (
        "return_type_is_no_response",
        "the return type is not `IntoResponse`",
    ),
    (
        "argument_is_no_extractor_returning_nothing",
        "an argument is no extractor; returns `()`",
    ),
    (
        "argument_is_no_extractor_returning_a_status",
        "the same; returns a `StatusCode`",
    ),
    (
        "argument_is_no_extractor_returning_a_result",
        "the same; returns what the README's handler does",
    ),
    (
        "argument_is_no_extractor_returning_an_impl",
        "the same; returns an `impl IntoResponse`",
    ),
    (
        "body_extractor_is_not_last",
        "the body extractor is not the last",
    ),
    ("future_is_not_send", "the future is not `Send`"),
    (
        "state_without_from_ref_returning_nothing",
        "the state has no `FromRef`; returns `()`",
    ),
    (
        "state_without_from_ref_returning_a_status",
        "the same; returns a `StatusCode`",
    ),
    (
        "state_without_from_ref_returning_a_result",
        "the same; returns what the README's handler does",
    ),
    (
        "state_without_from_ref_returning_an_impl",
        "the same; returns an `impl IntoResponse`",
    ),
];

struct Output {
    lines: usize,
    characters: usize,
    /// rustc says why, and not only that the handler is none.
    explains: bool,
}

fn output(kind: &str, mistake: &str) -> Output {
    let folder = format!("compared_{kind}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fail")
        .join(&folder)
        .join(mistake)
        .with_extension("stderr");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Where the case stands is no part of the message.
    let text = text.replace(&folder, "compared");
    let errors = text.lines().filter(|line| line.starts_with("error"));
    Output {
        lines: text.lines().count(),
        characters: text.chars().count(),
        explains: errors.into_iter().any(|error| !error.contains("Handler<")),
    }
}

/// rustc prints the type of the whole function, so this is about each type that it may return.
#[test]
fn no_message_is_longer_than_plain_axum() {
    for (mistake, _) in MISTAKES {
        for attribute in ["", "_with_debug_handler"] {
            let plain = output(&format!("axum{attribute}"), mistake);
            let ours = output(&format!("idempotent{attribute}"), mistake);
            assert_no_longer(&ours, &plain, &format!("{mistake}{attribute}"));
            assert!(ours.explains >= plain.explains, "{mistake}{attribute}");
        }
    }
}

/// The database that is not the usual one is a part of the type, whose name does not count, and what plain axum
/// prints is shortest for a handler that returns nothing.
#[test]
fn no_message_is_longer_in_another_mode_or_on_another_database() {
    let mistake = "argument_is_no_extractor_returning_nothing";
    let plain = output("axum", mistake);
    for kind in ["on_sqlite", "under_a_lease"] {
        let mut ours = output(&format!("idempotent_{kind}"), mistake);
        if kind == "on_sqlite" {
            ours.characters -= 2 * ", Sqlite".len();
        }
        assert_no_longer(&ours, &plain, kind);
    }
}

fn assert_no_longer(ours: &Output, plain: &Output, what: &str) {
    assert!(
        ours.lines <= plain.lines,
        "{what}: {} lines, and plain axum has {}",
        ours.lines,
        plain.lines
    );
    assert!(
        ours.characters <= plain.characters,
        "{what}: {} characters, and plain axum has {}",
        ours.characters,
        plain.characters
    );
}

/// `UPDATE_EXPECT=1` writes the table.
#[test]
fn the_comparison_is_the_one_that_people_read() {
    let mut table = String::from(
        "# The same mistake, plainly and annotated\n\n\
         Lines and characters that rustc prints, and whether they say why. Measured on \
         `fail/compared_*`; written by `UPDATE_EXPECT=1 cargo test -p idem-ui --test comparison`.\n\n\
         | mistake | plain axum | `#[idempotent]` | plain axum with `#[debug_handler]` | `#[idempotent]` above `#[debug_handler]` |\n\
         |---|---|---|---|---|\n",
    );
    for (mistake, words) in MISTAKES {
        let kinds = [
            "axum",
            "idempotent",
            "axum_with_debug_handler",
            "idempotent_with_debug_handler",
        ];
        let cells = kinds.map(|kind| {
            let output = output(kind, mistake);
            let why = if output.explains {
                "says why"
            } else {
                "does not say why"
            };
            format!("{} / {}, {why}", output.lines, output.characters)
        });
        table.push_str(&["|", words, "|", &cells.join(" | "), "|\n"].join(" "));
    }
    expect_file!["../COMPARISON.md"].assert_eq(&table);
}
