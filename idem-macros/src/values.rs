//! What the value of an option may be, one function per kind of value.

use std::time::Duration;

use quote::ToTokens;
use syn::{Expr, ExprLit, ExprPath, Ident, Lit, LitStr, Path};

use crate::diag::{Mistakes, code, list, nearest};
use crate::names::{self, Name};
use crate::units;

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

/// The value of `key`.
pub(crate) enum Key {
    /// A header, its name in lower case.
    Header(LitStr),
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
    if value.is_empty() {
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
pub(crate) fn tenant(value: &Expr) -> Tenant {
    match value {
        Expr::Path(path) if path.path.is_ident("shared") => {
            Tenant::Shared(path.path.segments[0].ident.clone())
        }
        _ => Tenant::Computed(value.clone()),
    }
}

/// 1 second to 400 days, or an expression.
pub(crate) fn ttl(value: &Expr, mistakes: &Mistakes) -> Option<Ttl> {
    match value {
        Expr::Lit(_) | Expr::Unary(_) => {
            units::duration(value, names::TTL, units::TTL, mistakes).map(Ttl::Fixed)
        }
        _ => Some(Ttl::Computed(value.clone())),
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
    units::size(value, names::MAX_RESPONSE, mistakes)
}

/// `header("name")` or an expression. A function called `header` can be
/// reached by a path.
pub(crate) fn key(value: &Expr, mistakes: &Mistakes) -> Option<Key> {
    let header_of = |name: &LitStr| format!("write `key = header({})`", name.token());
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
            let help = format!("write `{}`", names::KEY.example);
            mistakes.add(call, "`header` takes one name as a string", help);
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
        _ => return computed(value, names::KEY, mistakes).map(Key::Computed),
    }
    None
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
    mistakes.add(name, what, format!("write `{}`", names::KEY.example));
    None
}

/// `true` or `false`.
pub(crate) fn flag(value: &Expr, name: Name, mistakes: &Mistakes) -> Option<bool> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(flag),
            ..
        }) => Some(flag.value),
        _ => wrong_kind(value, name, "`true` or `false`", mistakes),
    }
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
        Expr::Lit(_) => {
            let what = format!("`{name}` is the same for every request");
            let help = format!("compute it from an argument: `{}`", name.example);
            mistakes.add(value, what, help);
            None
        }
        _ => Some(value.clone()),
    }
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

fn is_word(value: &Expr, word: &str) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident(word))
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
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        match self {
            Self::Literal(text) => text.to_tokens(tokens),
            Self::Constant(path) => path.to_tokens(tokens),
        }
    }
}
