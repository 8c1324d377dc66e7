//! What the value of an option may be, one function per kind of value.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, ExprClosure, ExprLit, ExprPath, Ident, Lit, LitStr, Path};

use crate::diag::{Mistakes, code, list, nearest};
use crate::names::{self, Name};
use crate::{sizes, units};

/// The value of `scope`.
pub(crate) enum Scope {
    Literal(LitStr),
    /// The path of a constant, which the runtime checks at compile time.
    Constant(ExprPath),
}

/// The value of `tenant`.
pub(crate) enum Tenant {
    /// All callers on purpose.
    Shared(Ident),
    Computed(Expr),
}

/// The value of `ttl`.
pub(crate) enum Ttl {
    Fixed(Duration),
    Computed(Expr),
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
            let what = format!("`{}` is no string", code(value));
            let help =
                "write the string, or name a constant: `const PAY: &str = …;`, and `scope = PAY`";
            mistakes.add(value, what, help);
            None
        }
        Expr::Path(_) | Expr::Field(_) => {
            let what = format!("`{}` is no string", code(value));
            let help = format!("quote it: `scope = \"{}\"`", scope_like(&code(value)));
            mistakes.add(value, what, help);
            None
        }
        _ => wrong_kind(
            value,
            names::SCOPE,
            "a string or the path of a constant",
            mistakes,
        ),
    }
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
    let chars = text.chars().take(MAX_SCOPE);
    chars
        .map(|c| {
            if allowed(c) {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect()
}

/// Anything: a literal is refused later, by the rules about the whole attribute.
pub(crate) fn tenant(value: &Expr, mistakes: &Mistakes) -> Option<Tenant> {
    match value {
        Expr::Path(path) if path.path.is_ident("shared") => {
            Some(Tenant::Shared(path.path.segments[0].ident.clone()))
        }
        Expr::Closure(closure) => {
            refuse_closure(closure, names::TENANT, mistakes);
            None
        }
        _ => Some(Tenant::Computed(value.clone())),
    }
}

/// 1 second to 400 days, or an expression.
pub(crate) fn ttl(value: &Expr, mistakes: &Mistakes) -> Option<Ttl> {
    match value {
        _ if is_number(value) => {
            units::duration(value, names::TTL, units::TTL, mistakes).map(Ttl::Fixed)
        }
        _ => Some(Ttl::Computed(value.clone())),
    }
}

/// A number, or a computation with numbers only: no `Duration`.
fn is_number(value: &Expr) -> bool {
    match value {
        Expr::Lit(_) | Expr::Unary(_) => true,
        Expr::Binary(binary) => is_number(&binary.left) && is_number(&binary.right),
        Expr::Paren(paren) => is_number(&paren.expr),
        _ => false,
    }
}

pub(crate) fn wait(value: &Expr, mistakes: &Mistakes) -> Option<Duration> {
    units::duration(value, names::WAIT, units::WAIT, mistakes)
}

pub(crate) fn timeout(value: &Expr, mistakes: &Mistakes) -> Option<Duration> {
    units::duration(value, names::TIMEOUT, units::TIMEOUT, mistakes)
}

pub(crate) fn lease(value: &Expr, mistakes: &Mistakes) -> Option<Duration> {
    units::duration(value, names::LEASE, units::LEASE, mistakes)
}

pub(crate) fn max_response(value: &Expr, mistakes: &Mistakes) -> Option<usize> {
    sizes::size(value, names::MAX_RESPONSE, mistakes)
}

/// `true` or `false`.
pub(crate) fn flag(value: &Expr, name: Name, mistakes: &Mistakes) -> Option<bool> {
    if let Expr::Lit(ExprLit {
        lit: Lit::Bool(flag),
        ..
    }) = value
    {
        return Some(flag.value);
    }
    let written = code(value).to_lowercase();
    let flag = ["true", "yes", "on", "1"].contains(&written.trim_matches('"'));
    let what = format!("`{name}` takes `true` or `false`");
    mistakes.add(value, what, format!("write `{name} = {flag}`"));
    None
}

/// One of a few strings.
pub(crate) fn choice(
    value: &Expr,
    name: Name,
    choices: &[&str],
    mistakes: &Mistakes,
) -> Option<LitStr> {
    let written = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if choices.contains(&&*text.value()) => return Some(text.clone()),
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => text.value(),
        Expr::Path(path) => path
            .path
            .segments
            .last()
            .map(|last| code(&last.ident))
            .unwrap_or_default(),
        _ => code(value),
    };
    let quoted: Vec<_> = choices.iter().map(|text| format!("{text:?}")).collect();
    let help = match nearest(&written.to_lowercase(), choices.iter().copied()) {
        Some(choice) => format!("write `{name} = \"{choice}\"`"),
        None => format!("write `{}`", name.example),
    };
    let what = format!("`{name}` takes {}", list(&quoted, "or"));
    mistakes.add(value, what, help);
    None
}

/// An expression that is not a constant.
pub(crate) fn computed(value: &Expr, name: Name, mistakes: &Mistakes) -> Option<Expr> {
    match value {
        Expr::Closure(closure) => {
            refuse_closure(closure, name, mistakes);
            None
        }
        _ if is_constant(value) => {
            let what = format!("`{name}` is the same for every request");
            let help = format!("compute it from the arguments, such as `{}`", name.example);
            mistakes.add(value, what, help);
            None
        }
        _ => Some(value.clone()),
    }
}

/// A literal, or what is made of literals only: `-1`, `&"a"`.
pub(crate) fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Lit(_) => true,
        Expr::Unary(unary) => is_constant(&unary.expr),
        Expr::Reference(reference) => is_constant(&reference.expr),
        Expr::Paren(paren) => is_constant(&paren.expr),
        Expr::Binary(binary) => is_constant(&binary.left) && is_constant(&binary.right),
        _ => false,
    }
}

/// An expression sees the arguments itself.
fn refuse_closure(closure: &ExprClosure, name: Name, mistakes: &Mistakes) {
    let what =
        format!("`{name}` takes a value, not a closure; it sees the arguments by their names");
    let help = format!("write `{name} = {}`", code(&closure.body));
    mistakes.add(closure, what, help);
}

/// A path that means the same in every module.
pub(crate) fn runtime(value: &Expr, mistakes: &Mistakes) -> Option<Path> {
    let path = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => {
            let path = text.value();
            let path = path.trim_start_matches("::");
            let help = format!("write it without quotes: `crate = ::{path}`");
            mistakes.add(text, "`crate` takes a path", help);
            return None;
        }
        Expr::Path(ExprPath {
            path, qself: None, ..
        }) => path,
        _ => return wrong_kind(value, names::CRATE, "a path", mistakes),
    };
    let first = path
        .segments
        .first()
        .map(|segment| segment.ident.to_string());
    let anchored = matches!(first.as_deref(), Some("crate" | "$crate"));
    if path.leading_colon.is_none() && !anchored {
        let what = format!(
            "`{}` is not absolute; it would mean something else in another module",
            code(path)
        );
        let help = format!("write `crate = ::{0}`, or `crate = crate::{0}`", code(path));
        mistakes.add(path, what, help);
        return None;
    }
    Some(path.clone())
}

fn wrong_kind<T>(value: &Expr, name: Name, takes: &str, mistakes: &Mistakes) -> Option<T> {
    let what = format!("`{name}` takes {takes}");
    mistakes.add(value, what, format!("write `{}`", name.example));
    None
}

/// Whether a path reads like a variable: one word in lower case.
pub(crate) fn is_variable(path: &ExprPath) -> bool {
    let word = path.path.get_ident().map(Ident::to_string);
    path.qself.is_none()
        && word.is_some_and(|word| {
            let word = word.trim_start_matches("r#");
            word.starts_with(|c: char| c.is_lowercase() || c == '_') && !word.contains('$')
        })
}

impl ToTokens for Scope {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Literal(text) => text.to_tokens(tokens),
            Self::Constant(path) => path.to_tokens(tokens),
        }
    }
}
