//! What the value of an option may be, one function per kind of value.

use std::time::Duration;

use syn::{Expr, ExprLit, ExprPath, Ident, Lit, LitStr, Path};

use crate::diag::{Mistakes, code, list, nearest};
use crate::names::{self, Name};
use crate::{sizes, units};

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

/// Anything: a literal is refused later, by the rules about the whole attribute.
pub(crate) fn tenant(value: &Expr, mistakes: &Mistakes) -> Option<Tenant> {
    match value {
        Expr::Path(path) if path.path.is_ident("shared") => {
            Some(Tenant::Shared(path.path.segments[0].ident.clone()))
        }
        Expr::Path(path) if path.path.is_ident("Shared") => {
            let what = "`shared`, which is for all callers, is written in lower case";
            mistakes.add(value, what, "write `tenant = shared`");
            None
        }
        _ => one_value(value, names::TENANT, mistakes).map(Tenant::Computed),
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
        Expr::Lit(_) => true,
        Expr::Unary(unary) => is_number(&unary.expr),
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
    if is_constant(value) {
        let what = format!("`{name}` is the same for every request");
        let help = format!("compute it from the arguments, such as `{}`", name.example);
        mistakes.add(value, what, help);
        return None;
    }
    one_value(value, name, mistakes)
}

/// An expression whose type can be told, and is one that the option may take.
fn one_value(value: &Expr, name: Name, mistakes: &Mistakes) -> Option<Expr> {
    let (what, help) = match value {
        Expr::Closure(closure) => (
            format!("`{name}` takes a value, not a closure; it sees the arguments by their names"),
            format!("write `{name} = {}`", code(&closure.body)),
        ),
        Expr::Tuple(tuple)
            if tuple.elems.len() > 1
                && [names::TENANT, names::KEY].contains(&name)
                && !is_constant(value) =>
        {
            let places = vec!["{}"; tuple.elems.len()].join("/");
            let values: Vec<_> = tuple.elems.iter().map(code).collect();
            (
                format!("`{name}` takes one value, not a tuple"),
                format!(
                    "join them: `{name} = format!(\"{places}\", {})`",
                    values.join(", ")
                ),
            )
        }
        Expr::MethodCall(call)
            if call.method == "into"
                && call.args.is_empty()
                && [names::TENANT, names::KEY, names::FINGERPRINT].contains(&name) =>
        {
            let receiver = code(&call.receiver);
            (
                format!("`{name}` takes values of many types; `.into()` does not say which"),
                format!("write `{name} = {receiver}`"),
            )
        }
        _ => return Some(value.clone()),
    };
    mistakes.add(value, what, help);
    None
}

/// A literal, or what is made of literals only: `-1`, `"a".to_owned()`, `()`.
pub(crate) fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Lit(_) => true,
        Expr::Group(group) => is_constant(&group.expr),
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_constant),
        Expr::Array(array) => array.elems.iter().all(is_constant),
        Expr::Unary(unary) => is_constant(&unary.expr),
        Expr::Reference(reference) => is_constant(&reference.expr),
        Expr::Paren(paren) => is_constant(&paren.expr),
        Expr::Binary(binary) => is_constant(&binary.left) && is_constant(&binary.right),
        Expr::MethodCall(call) => is_constant(&call.receiver) && call.args.iter().all(is_constant),
        _ => false,
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
        let help = if matches!(first.as_deref(), Some("self" | "super" | "Self")) {
            "begin at the root: `crate = crate::idem_runtime`".to_owned()
        } else {
            format!("write `crate = ::{0}`, or `crate = crate::{0}`", code(path))
        };
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
