//! Whether an option has to be awaited: then so does the runtime's future.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Expr;

use crate::check::expressions;
use crate::options::Options;

/// The first option whose value is awaited.
pub(crate) fn awaiting(options: &Options) -> Option<&Expr> {
    let mut values = expressions(options).into_iter().map(|(_, value)| value);
    values.find(|value| awaits(value.to_token_stream()))
}

/// Macros that await nothing. Any other may, as `tokio::join!` does.
const PLAIN_MACROS: [&str; 12] = [
    "concat",
    "env",
    "format",
    "format_args",
    "include_str",
    "line",
    "matches",
    "module_path",
    "option_env",
    "panic",
    "stringify",
    "vec",
];

fn awaits(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    let mut called = None;
    while let Some(token) = tokens.next() {
        let found = match (&token, tokens.peek()) {
            (TokenTree::Ident(word), _) => word == "await",
            (TokenTree::Punct(sign), Some(TokenTree::Group(_))) if sign.as_char() == '!' => {
                called.is_some_and(|name: String| !PLAIN_MACROS.contains(&&*name))
            }
            (TokenTree::Group(group), _) => awaits(group.stream()),
            _ => false,
        };
        if found {
            return true;
        }
        called = match token {
            TokenTree::Ident(word) => Some(word.to_string()),
            _ => None,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn only_macros_of_std_are_known_to_await_nothing() {
        for tokens in [
            quote!(find(account).await),
            quote!(format!("{}", find(account).await)),
            quote!(tokio::join!(find(account)).0),
            quote!(tenant!(account)),
        ] {
            assert!(awaits(tokens.clone()), "{tokens}");
        }
        for tokens in [
            quote!(account.id),
            quote!(std::format!("{}/{}", account.org, account.id)),
            quote!(!(account.is_new)),
            quote!(account.id != (1)),
        ] {
            assert!(!awaits(tokens.clone()), "{tokens}");
        }
    }
}
