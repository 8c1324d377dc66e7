//! How an option is written: `name = value`, and what is found in its place.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;
use syn::{Expr, Ident, Token};

use crate::diag::{Mistakes, code};
use crate::names::{self, Name};

pub(crate) enum Value {
    /// The option stands alone.
    None,
    Read(Expr),
    /// Reported.
    Unreadable,
}

/// Reads `= value` and the comma behind it.
pub(crate) fn parse_value(
    word: &Ident,
    name: Option<Name>,
    input: ParseStream,
    mistakes: &Mistakes,
) -> Value {
    let example = || match name {
        Some(name) => format!("write `{}`", name.example),
        None => format!("write `{word} = …`"),
    };
    if take_end(input) {
        return Value::None;
    }
    if !input.peek(Token![=]) || input.peek(Token![==]) || input.peek(Token![=>]) {
        let wrong = skip_to_comma(input);
        take_end(input);
        if name == Some(names::MESSAGE) {
            let what = format!("`{word}` is a flag; it takes no value");
            mistakes.add(wrong, what, format!("write `{word}` alone"));
        } else if let Some(name) = name {
            let what = format!("expected `=` after `{word}`, found `{}`", code(&wrong));
            let help = match value_in(&wrong) {
                Some(value) if name == names::CRATE => format!("write `crate = ::{value}`"),
                Some(value) => format!("write `{word} = {value}`"),
                None => example(),
            };
            mistakes.add(wrong, what, help);
        }
        return Value::Unreadable;
    }
    let _: syn::Result<Token![=]> = input.parse();
    if take_end(input) {
        return Value::None;
    }
    let ahead = input.fork();
    let value = match ahead.parse::<Expr>() {
        Ok(Expr::Assign(assign)) => {
            input.advance_to(&ahead);
            if code(&assign.left) == "header" {
                let help = format!("write `{word} = header({})`", code(&assign.right));
                mistakes.add(assign, "`header` takes its name in parentheses", help);
            } else {
                let what = format!("`{word}` takes one value; this `=` starts a second one");
                mistakes.add(assign.eq_token, what, "separate options by commas");
            }
            Value::Unreadable
        }
        Ok(value) => {
            input.advance_to(&ahead);
            Value::Read(ungrouped(value))
        }
        Err(error) => {
            let rest = skip_to_comma(input);
            if name.is_some() {
                let what = format!("the value of `{word}` is no expression; {error}");
                // The end of the attribute is no token.
                if error.to_string().starts_with("unexpected end") {
                    mistakes.add(rest, what, example());
                } else {
                    mistakes.add_at(error.span(), what, example());
                }
            }
            Value::Unreadable
        }
    };
    if !take_end(input) && !expect_comma(word, &value, input, mistakes) {
        return Value::Unreadable;
    }
    value
}

/// Reports what follows a value in place of a comma. When it looks like the
/// next option, that one is read as usual. Returns whether the value is all that was meant to be one.
fn expect_comma(word: &Ident, value: &Value, input: ParseStream, mistakes: &Mistakes) -> bool {
    if let Ok(semicolon) = input.parse::<Token![;]>() {
        let what = format!("expected a comma after the value of `{word}`, found `;`");
        mistakes.add(semicolon, what, "separate options by commas");
        return true;
    }
    let ahead = input.fork();
    let next = Ident::parse_any(&ahead);
    match next {
        Ok(next) if ahead.peek(Token![=]) || next == names::MESSAGE.text => {
            let what = format!("missing comma before `{next}`");
            let help = match value {
                Value::Read(value) => format!("write `{word} = {}, {next} …`", code(value)),
                Value::None | Value::Unreadable => "separate options by commas".to_owned(),
            };
            mistakes.add(next, what, help);
            true
        }
        _ => {
            let rest = skip_to_comma(input);
            take_end(input);
            if let Value::Read(value) = value {
                let what = format!("unexpected `{}` after the value of `{word}`", code(&rest));
                mistakes.add(rest, what, format!("end it: `{word} = {}`", code(value)));
            }
            false
        }
    }
}

/// The value in `: "pay"`, `=> "pay"`, or `("pay")`.
fn value_in(wrong: &TokenStream) -> Option<String> {
    let is_sign = |token: &TokenTree| matches!(token, TokenTree::Punct(_));
    let rest: Vec<_> = wrong.clone().into_iter().skip_while(is_sign).collect();
    let rest = match &rest[..] {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => group.stream(),
        _ => rest.into_iter().collect(),
    };
    syn::parse2::<Expr>(rest).ok().map(code)
}

/// Whether the option ends here; takes the comma.
pub(crate) fn take_end(input: ParseStream) -> bool {
    input.is_empty() || input.parse::<Token![,]>().is_ok()
}

pub(crate) fn skip_to_comma(input: ParseStream) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        let Ok(token) = input.parse::<TokenTree>() else {
            break;
        };
        skipped.extend([token]);
    }
    skipped
}

/// Removes the invisible groups that `macro_rules!` puts around a `$name:literal`, or a `$key:expr`
/// of one word: what is written there is looked at as if it stood there.
pub(crate) fn without_groups(tokens: TokenStream) -> TokenStream {
    let flat = |token| match token {
        TokenTree::Group(group) => {
            let inside = without_groups(group.stream());
            let mut tokens = inside.clone().into_iter();
            match (group.delimiter(), tokens.next(), tokens.next()) {
                (
                    Delimiter::None,
                    Some(token @ (TokenTree::Literal(_) | TokenTree::Ident(_))),
                    None,
                ) => token,
                (delimiter, ..) => {
                    let mut flat = Group::new(delimiter, inside);
                    flat.set_span(group.span());
                    flat.into()
                }
            }
        }
        token => token,
    };
    tokens.into_iter().map(flat).collect()
}

/// Removes the invisible group that `macro_rules!` puts around `$value:expr`.
fn ungrouped(expr: Expr) -> Expr {
    match expr {
        Expr::Group(group) => ungrouped(*group.expr),
        other => other,
    }
}
