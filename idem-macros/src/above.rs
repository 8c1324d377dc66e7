//! What stands above the attribute. One that has expanded is not among our tokens any more, so the
//! source has to tell; where there is none, nothing is said.

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
    use super::debug_handler_stands_above;

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
