//! The value of `scope`: a literal, or the path of a constant.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, ExprLit, ExprPath, Lit, LitStr};

use crate::diag::{Mistakes, code};
use crate::names;
use crate::values::is_variable;

/// The value of `scope`.
pub(crate) enum Scope {
    Literal(LitStr),
    /// The path of a constant, which the runtime checks at compile time.
    Constant(ExprPath),
    /// What reads like a variable. The rules about the whole attribute refuse it.
    Unquoted(Expr),
}

/// The longest scope, in characters.
const MAX_SCOPE: usize = 64;

/// 1 to 64 of `[a-z0-9._-]`: a scope is part of a stored key and of metrics.
pub(crate) fn scope(value: &Expr, mistakes: &Mistakes) -> Option<Scope> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => checked_scope(text, mistakes).map(Scope::Literal),
        Expr::Path(path) if !is_variable(path) => Some(Scope::Constant(path.clone())),
        Expr::Macro(_) => {
            let help =
                "write the string, or name a constant: `const PAY: &str = …;`, and `scope = PAY`";
            mistakes.add(value, SCOPE_TAKES, help);
            None
        }
        Expr::Path(_) | Expr::Field(_) => Some(Scope::Unquoted(value.clone())),
        Expr::Lit(literal) if is_reported(literal) => {
            mistakes.add_none();
            None
        }
        _ => {
            let help = match simply(value) {
                Some(simple) => format!("write `scope = {}`", code(simple)),
                None => format!("write `{}`", names::SCOPE.example),
            };
            mistakes.add(value, SCOPE_TAKES, help);
            None
        }
    }
}

const SCOPE_TAKES: &str = "`scope` takes a string or the path of a constant";

/// The string of `"pay".to_string()` or `String::from("pay")`, the constant of `&PAY`.
fn simply(value: &Expr) -> Option<&Expr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if scope_like(&text.value()) == text.value() => Some(value),
        Expr::Path(path) if !is_variable(path) => Some(value),
        Expr::MethodCall(call) if call.args.is_empty() => simply(&call.receiver),
        Expr::Reference(reference) => simply(&reference.expr),
        Expr::Paren(paren) => simply(&paren.expr),
        Expr::Call(call) if call.args.len() == 1 => simply(&call.args[0]),
        _ => None,
    }
}

/// `'pay'`, which rustc has refused before, with a help about quotes.
fn is_reported(literal: &ExprLit) -> bool {
    let text = code(literal);
    text.starts_with('\'') && syn::parse_str::<syn::LitChar>(&text).is_err()
}

fn checked_scope(text: &LitStr, mistakes: &Mistakes) -> Option<LitStr> {
    let value = text.value();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    if value.trim().is_empty() {
        let help = format!("name the operation: `{}`", names::SCOPE.example);
        mistakes.add(text, "`scope` is empty", help);
    } else if let Some(bad) = value.chars().find(|&c| !allowed(c)) {
        let what =
            format!("`scope` contains `{bad}`; it takes only `a-z`, `0-9`, `.`, `_`, and `-`");
        let help = format!("write `scope = \"{}\"`", scope_like(&value));
        mistakes.add(text, what, help);
    } else if value.len() > MAX_SCOPE {
        let what = format!(
            "`scope` has {} characters; at most {MAX_SCOPE} fit",
            value.len()
        );
        let help = format!(
            "shorten it, for example to `scope = \"{}\"`",
            &value[..MAX_SCOPE]
        );
        mistakes.add(text, what, help);
    } else {
        return Some(text.clone());
    }
    None
}

/// Turns any text into a scope that is allowed.
pub(crate) fn scope_like(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let text = text.trim().replace("::", ".");
    let mut scope = String::new();
    for c in text.chars().take(MAX_SCOPE) {
        if allowed(c) {
            scope.push(c.to_ascii_lowercase());
        } else if !scope.ends_with('-') {
            scope.push('-');
        }
    }
    scope
}

impl ToTokens for Scope {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Literal(text) => text.to_tokens(tokens),
            Self::Constant(path) => path.to_tokens(tokens),
            Self::Unquoted(value) => value.to_tokens(tokens),
        }
    }
}
