//! What an option's expression cannot do: leave, and call `header`.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Expr;

use super::arguments::parts;
use crate::diag::{Mistakes, code};
use crate::names::{self, Name};

/// An option is computed before there is a response, and outside of the handler: an error would
/// have nowhere to go.
pub(super) fn check(value: &Expr, name: Name, mistakes: &Mistakes) {
    if let Some(exit) = exit(value.to_token_stream()) {
        let what = format!("`{exit}` cannot leave `{name}`; nothing would answer the request");
        let help = format!(
            "let an extractor refuse the request, and use what it holds: `{}`",
            name.example
        );
        mistakes.add(exit, what, help);
    }
}

/// The first `?` or `return`. What follows a `|` may be a closure's, and what is within a macro's
/// parentheses anybody's.
fn exit(tokens: TokenStream) -> Option<TokenTree> {
    let mut before = None;
    for token in tokens {
        let ends_value = matches!(
            before,
            Some(TokenTree::Ident(_) | TokenTree::Literal(_) | TokenTree::Group(_))
        );
        let is_sign = |sign: char, token: &Option<TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign);
        match &token {
            TokenTree::Ident(word) if word == "return" => return Some(token),
            TokenTree::Ident(word) if word == "async" => return None,
            TokenTree::Punct(punct) if punct.as_char() == '|' => return None,
            TokenTree::Punct(punct) if ends_value && punct.as_char() == '?' => return Some(token),
            TokenTree::Group(group) if !is_sign('!', &before) => {
                if let Some(found) = exit(group.stream()) {
                    return Some(found);
                }
            }
            _ => {}
        }
        before = Some(token);
    }
    None
}

/// `header("x-key")` is no function: it is all of `key`, and of no other option.
pub(super) fn check_header(value: &Expr, name: Name, mistakes: &Mistakes) -> bool {
    let header = header_call(value);
    if let Some((call, text)) = &header {
        let (what, help) = if name == names::KEY {
            (
                "`header(…)` is the whole key, and no part of one".to_owned(),
                format!("write `key = header({text})`"),
            )
        } else {
            (
                format!("`header(…)` is for `key`; `{name}` takes a value"),
                format!(
                    "take an extractor that reads the header, and use it: `{}`",
                    name.example
                ),
            )
        };
        mistakes.add(call, what, help);
    }
    header.is_some()
}

fn header_call(value: &Expr) -> Option<(&Expr, String)> {
    if let Expr::Call(call) = value
        && matches!(&*call.func, Expr::Path(path) if path.path.is_ident("header"))
        && call.args.len() == 1
        && let Expr::Lit(text) = &call.args[0]
    {
        return Some((value, code(text)));
    }
    parts(value).into_iter().find_map(header_call)
}
