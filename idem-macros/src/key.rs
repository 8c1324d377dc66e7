//! The value of `key`: a header, or an expression.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, ExprLit, Lit, LitStr};

use crate::diag::{Mistakes, code};
use crate::names;
use crate::values::{computed, is_constant};

/// The value of `key`.
pub(crate) enum Key {
    /// A header, its name in lower case.
    Header(LitStr),
    Computed(Expr),
}

/// `header("name")` or an expression. A function called `header` can be
/// reached by a path.
pub(crate) fn key(value: &Expr, mistakes: &Mistakes) -> Option<Key> {
    let header_of = |name: &LitStr| format!("write `key = header({})`", name.token());
    let by_name = |tokens: TokenStream| {
        let name = header_like(&tokens);
        let name = name.unwrap_or_else(|| "idempotency-key".to_owned());
        format!("write `key = header(\"{name}\")`")
    };
    match value {
        Expr::Call(call) if is_word(&call.func, "header") => {
            let arguments: Vec<_> = call.args.iter().collect();
            if let [
                Expr::Lit(ExprLit {
                    lit: Lit::Str(name),
                    ..
                }),
            ] = arguments[..]
            {
                return header_name(name, mistakes).map(Key::Header);
            }
            let what = "`header` takes one name as a string";
            mistakes.add(call, what, by_name(call.args.first().to_token_stream()));
        }
        Expr::Index(index) if is_word(&index.expr, "header") => {
            let what = "`header` takes its name in parentheses";
            mistakes.add(value, what, by_name(index.index.to_token_stream()));
        }
        Expr::Macro(macros) if macros.mac.path.is_ident("header") => {
            let what = "`header` is no macro";
            mistakes.add(value, what, by_name(macros.mac.tokens.clone()));
        }
        Expr::Lit(ExprLit {
            lit: Lit::Str(name),
            ..
        }) => {
            let what = "`key` is the same for every request; a header is named by `header(…)`";
            mistakes.add(name, what, header_of(name));
        }
        Expr::Path(_) if is_word(value, "header") => {
            let help = format!("write `{}`", names::KEY.example);
            mistakes.add(value, "`header` has no name", help);
        }
        _ if is_constant(value) => {
            let what = "`key` is the same for every request";
            let help = "compute it from an argument: `key = event.id`";
            mistakes.add(value, what, help);
        }
        _ => return computed(value, names::KEY, mistakes).map(Key::Computed),
    }
    None
}

/// What `X-Key` or `"bad name"` was probably meant to be.
fn header_like(tokens: &TokenStream) -> Option<String> {
    let text: String = code(tokens).to_ascii_lowercase();
    let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = text
        .chars()
        .map(|c| if " _".contains(c) { '-' } else { c })
        .collect();
    (!name.is_empty() && name.chars().all(sound)).then_some(name)
}

/// A field name of RFC 9110 section 5.6.2, made lower case.
fn header_name(name: &LitStr, mistakes: &Mistakes) -> Option<LitStr> {
    let text = name.value();
    let bad = text
        .chars()
        .find(|&c| !c.is_ascii_alphanumeric() && !"!#$%&'*+-.^_`|~".contains(c));
    let what = match bad {
        Some(bad) => format!("`{bad}` cannot stand in a header name"),
        None if text.is_empty() => "the header name is empty".to_owned(),
        None => return Some(LitStr::new(&text.to_ascii_lowercase(), name.span())),
    };
    let sound = header_like(&name.to_token_stream());
    let sound = sound.unwrap_or_else(|| "idempotency-key".to_owned());
    mistakes.add(name, what, format!("write `key = header(\"{sound}\")`"));
    None
}

fn is_word(value: &Expr, word: &str) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident(word))
}
