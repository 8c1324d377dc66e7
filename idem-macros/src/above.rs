//! What stands above the attribute, and around it. An attribute that has expanded is not among our tokens any
//! more, and a block never is, so the source has to tell; where there is none, nothing is said.

use std::fs;

use proc_macro2::Span;

use crate::diag::Mistakes;

/// `#[debug_handler]` above has written checks of its own for `tx`, which is no extractor, and
/// rustc refuses those without a word about the order.
pub(crate) fn check(
    attribute: proc_macro::Span,
    item: &proc_macro::TokenStream,
    mistakes: &Mistakes,
) {
    let Some(source) = attribute.local_file() else {
        return;
    };
    let source = fs::read_to_string(source).unwrap_or_default();
    if debug_handler_stands_above(&source, attribute.start().line()) {
        // As a token of the user's: rustc would add where the macro is.
        let user = item.clone().into_iter().next();
        let span = user.map_or(attribute, |token| attribute.resolved_at(token.span()));
        mistakes.add_at(
            Span::from(span),
            "`#[debug_handler]` checks the handler before `#[idempotent]` has expanded",
            "move `#[axum::debug_handler(state = App)]` below `#[idempotent(…)]`",
        );
    }
}

/// What a function stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// A trait, or an `impl` of one: the function has to be the trait's.
    Trait,
    Impl,
    Module,
    Unknown,
}

impl Around {
    pub(crate) fn of(attribute: proc_macro::Span) -> Self {
        let source = attribute.local_file().map(fs::read_to_string);
        match source {
            Some(Ok(source)) => Self::at(&source, attribute.start().line()),
            _ => Self::Unknown,
        }
    }

    /// Finds the block around a line, which counts from 1, by what is indented less.
    fn at(source: &str, line: usize) -> Self {
        let lines: Vec<_> = source.lines().take(line).collect();
        let indentation = |line: &str| line.len() - line.trim_start().len();
        let own = lines.last().map_or(0, |line| indentation(line));
        let begins = |line: &str, block: &str| {
            let mut words = line.trim_start().split([' ', '<']).take(3);
            words.any(|word| word == block)
        };
        let is_block = |line: &str| {
            let mut blocks = ["impl", "trait", "mod", "fn"].into_iter();
            !line.trim_start().starts_with("//") && blocks.any(|block| begins(line, block))
        };
        let block = lines
            .iter()
            .rposition(|line| indentation(line) < own && is_block(line));
        let header = lines[block.unwrap_or(lines.len())..].join(" ");
        let header = header.split('{').next().unwrap_or_default();
        match (begins(header, "trait"), begins(header, "impl")) {
            (true, _) => Self::Trait,
            (_, true) if header.contains(" for ") => Self::Trait,
            (_, true) => Self::Impl,
            _ => Self::Module,
        }
    }
}

/// Looks through the attributes and comments right above a line, which counts from 1.
fn debug_handler_stands_above(source: &str, line: usize) -> bool {
    let above: Vec<_> = source.lines().take(line.saturating_sub(1)).collect();
    let mut attributes = above
        .iter()
        .rev()
        .map(|line| line.trim_start())
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| {
        let path = line.strip_prefix("#[").unwrap_or_default();
        let path = path.split(['(', ']']).next().unwrap_or_default();
        path.trim().rsplit("::").next() == Some("debug_handler")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_around_is_found() {
        for (around, source) in [
            (Around::Trait, "trait Api {\n    #[idempotent]"),
            (
                Around::Trait,
                "pub(crate) trait Api: Send {\n    fn other();\n\n    #[idempotent]",
            ),
            (
                Around::Trait,
                "impl<T> Api for Payments<T>\nwhere\n    T: Clone,\n{\n    const A: u8 = 1;\n    #[idempotent]",
            ),
            (
                Around::Trait,
                "mod api {\n    impl Api for Payments {\n        fn a() {}\n        #[idempotent]",
            ),
            (
                Around::Impl,
                "impl Payments {\n    fn other() {\n        for a in b {}\n    }\n    // fn\n    #[idempotent]",
            ),
            (
                Around::Impl,
                "impl<T: for<'a> Fn(&'a u8)> Payments<T> {\n    #[idempotent]",
            ),
            (Around::Module, "#[idempotent]"),
            (Around::Module, "trait Api {}\n#[idempotent]"),
            (Around::Module, "pub mod api {\n    #[idempotent]"),
            (Around::Module, "fn main() {\n// trait\n    #[idempotent]"),
        ] {
            let line = source.lines().position(|line| line.contains("idempotent"));
            assert_eq!(
                Around::at(source, 1 + line.expect("ours")),
                around,
                "{source}"
            );
        }
    }

    #[test]
    fn only_what_stands_right_above_counts() {
        let at = |source: &str| {
            let line = source.lines().position(|line| line.contains("idempotent"));
            debug_handler_stands_above(source, 1 + line.expect("ours"))
        };
        for above in [
            "#[axum::debug_handler]\n#[idempotent]",
            "  #[debug_handler(state = App)]\n  // why\n  #[allow(x)]\n  #[idempotent]",
            "#[axum_macros::debug_handler]\n#[idempotent]",
        ] {
            assert!(at(above), "{above}");
        }
        for elsewhere in [
            "#[idempotent]\n#[axum::debug_handler]",
            "#[axum::debug_handler]\nasync fn other() {}\n#[idempotent]",
            "#[cfg_attr(x, axum::debug_handler)]\n#[idempotent]",
            "// #[axum::debug_handler]\n#[idempotent]",
            "#[idempotent]",
        ] {
            assert!(!at(elsewhere), "{elsewhere}");
        }
    }
}
