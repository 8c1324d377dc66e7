//! What one parameter may be, whatever stands beside it.

use syn::{GenericArgument, PathArguments, Type};

use super::borrowing;
use super::mode::wrapped_connection;
use crate::diag::{Mistakes, code};
use crate::handler::{Handler, Param};
use crate::message::is_wanted;
use crate::options::Options;
use crate::patterns::bindings;
use crate::role::{Misuse, Role, last_name, ungrouped, with_lifetime};

pub(crate) fn check(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    for param in &handler.params {
        check_reference(handler, options, param, mistakes);
        check_impl_trait(handler, param, mistakes);
        borrowing::check(handler, options, param, mistakes);
        check_conditional(param, mistakes);
        check_documented(param, mistakes);
    }
}

/// The router calls the handler with types that it can tell from the signature.
fn check_impl_trait(handler: &Handler, param: &Param, mistakes: &Mistakes) {
    let ty = param.ty();
    let is_connection = wrapped_connection(handler).is_some_and(|(it, _)| it.index == param.index);
    if !matches!(param.role, Role::Extractor) || is_connection {
        return;
    }
    let Some(any) = impl_trait(ty) else { return };
    let what = format!(
        "`{}` could be any type; the router cannot tell which",
        code(any)
    );
    mistakes.add(ty, what, as_parameter(handler, param, any, ty));
}

/// How a handler is generic over what was `impl Trait`.
fn as_parameter(handler: &Handler, param: &Param, any: &Type, ty: &Type) -> String {
    let (name, pat) = (handler.name(), code(param.pat()));
    let (any, ty) = (code(any), code(ty));
    let (bounds, named) = (any.trim_start_matches("impl "), ty.replace(&any, "T"));
    format!(
        "make it a parameter, `async fn {name}<T: {bounds}>({pat}: {named}, …)`, and say which in the route, `post({name}::<…>)`"
    )
}

/// How the argument of a type that a request cannot lend, or that has no size, is taken instead.
fn owned_argument(handler: &Handler, param: &Param, ty: &Type) -> String {
    let (pat, text) = (name_of(param), code(ty));
    match ungrouped(ty) {
        Type::TraitObject(_) => {
            format!("share it in the router's state: `State({pat}): State<Arc<{text}>>`")
        }
        Type::ImplTrait(_) => as_parameter(handler, param, ty, ty),
        Type::Slice(slice) if code(&slice.elem) == "u8" => {
            format!("take the body as it is: `{pat}: axum::body::Bytes`")
        }
        Type::Slice(slice) => {
            let list = format!("Vec<{}>", code(&slice.elem));
            format!("say what it is made of: `Json({pat}): Json<{list}>`")
        }
        _ if text == "str" => format!("write `{pat}: String`"),
        _ => format!("write `{pat}: {text}`"),
    }
}

pub(super) fn impl_trait(ty: &Type) -> Option<&Type> {
    match ungrouped(ty) {
        Type::ImplTrait(_) => Some(ty),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(impl_trait),
        Type::Path(path) => match &path.path.segments.last()?.arguments {
            PathArguments::AngleBracketed(inside) => inside.args.iter().find_map(|arg| match arg {
                GenericArgument::Type(ty) => impl_trait(ty),
                _ => None,
            }),
            _ => None,
        },
        _ => None,
    }
}

/// A reference is a transaction, a lease, or the claim; anything else comes
/// out of the request, owned.
fn check_reference(handler: &Handler, options: &Options, param: &Param, mistakes: &Mistakes) {
    let Role::Misused(misuse) = param.role else {
        return;
    };
    if misuse == Misuse::Reference && wrapped_connection(handler).is_some() {
        return;
    }
    let (pat, ty) = (name_of(param), ungrouped(param.ty()));
    let with_lifetime = with_lifetime(ty);
    let owned = match with_lifetime.as_ref().unwrap_or(ty) {
        Type::Reference(reference) => code(&reference.elem),
        other => code(other),
    };
    let references = "a reference can be `&mut PgConnection`, `&mut SqliteConnection`, `&mut Transaction<'_, DB>`, `&Lease<DB>`, or `&Claim`";
    let (what, help) = match misuse {
        Misuse::NotMutable => (
            format!("`{pat}` is lent to the handler by `&mut`; the runtime commits it afterwards"),
            format!("write `{pat}: &mut {owned}`"),
        ),
        Misuse::NotShared => (
            match ty {
                Type::Reference(_) => {
                    format!("`{pat}` is lent to the handler by `&`, not by `&mut`")
                }
                _ => format!("`{pat}` is lent to the handler by `&`, not given"),
            },
            format!("write `{pat}: &{owned}`"),
        ),
        Misuse::Pool => (
            format!(
                "`{pat}` is {}; what is written through it is outside the transaction",
                pool(ty)
            ),
            format!("take the transaction, `tx: &mut {}`", connection_of(ty)),
        ),
        Misuse::Handle => handle(handler, options, &pat, &owned),
        Misuse::LeaseOfWhat => (
            format!("`{pat}` does not say whose lease it is"),
            format!("name the database: `{pat}: &Lease<Postgres>`"),
        ),
        Misuse::TransactionOfWhat => (
            format!("`{pat}` does not say whose transaction it is"),
            format!("name the database: `{pat}: &mut sqlx::Transaction<'_, Postgres>`"),
        ),
        Misuse::Parameters => {
            let connection = connection_of(ty);
            (
                format!("`{connection}` has no parameters"),
                format!("write `{pat}: &mut {connection}`"),
            )
        }
        Misuse::OfAConnection => {
            let database = match connection_of(ty) {
                "SqliteConnection" => "Sqlite",
                _ => "Postgres",
            };
            let written = match last_name(reference_to(ty)) {
                Some((name, _)) if name == "Lease" => format!("&Lease<{database}>"),
                _ => format!("&mut Transaction<'_, {database}>"),
            };
            (
                format!(
                    "`{}` names a connection in the place of its database",
                    code(ty)
                ),
                format!("write `{pat}: {written}`"),
            )
        }
        Misuse::Text | Misuse::Reference if is_wanted(options) => (
            format!("`{pat}` is borrowed; a message is owned by the one who consumes it"),
            match misuse {
                Misuse::Text => format!("write `{pat}: String`"),
                _ => format!("write `{pat}: {owned}`"),
            },
        ),
        Misuse::Text => (
            format!("`{pat}` is borrowed; an extractor is owned"),
            format!("write `{pat}: String`"),
        ),
        Misuse::Reference => (
            format!("`{pat}` is borrowed; an extractor is owned, and {references}"),
            owned_argument(handler, param, reference_to(ty)),
        ),
        Misuse::Unsized => (
            format!("`{owned}` has no size of its own; an argument is a value"),
            owned_argument(handler, param, ty),
        ),
        Misuse::MutableReference => (
            format!("`{pat}` is no transaction that `#[idempotent]` knows; {references}"),
            format!("write the type in full, such as `{pat}: &mut PgConnection`"),
        ),
    };
    mistakes.add(ty, what, help);
}

/// The handle is where the caller has it: in the router's state, or in the hand of a consumer's.
fn handle(handler: &Handler, options: &Options, pat: &str, owned: &str) -> (String, String) {
    let has_mode = handler.transaction().or(handler.lease()).is_some();
    let (what, remedy) = if is_wanted(options) {
        let name = handler.name();
        let what =
            format!("`{pat}` is the handle; the caller of `{name}` passes it, before the message");
        (what, "remove it".to_owned())
    } else {
        let what = format!("`{pat}` is the handle; it is in the router's state");
        (what, format!("write `State({pat}): State<{owned}>`"))
    };
    let transaction = || "take the transaction instead: `tx: &mut PgConnection`".to_owned();
    (what, if has_mode { remedy } else { transaction() })
}

fn pool(ty: &Type) -> &'static str {
    match last_name(reference_to(ty)) {
        Some((name, _)) if name == "PoolConnection" => "a connection of a pool",
        _ => "a pool",
    }
}

/// What a reference points to, or the type itself.
pub(super) fn reference_to(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => ungrouped(&reference.elem),
        other => other,
    }
}

/// The pattern as a person refers to it: `tx` for `mut tx`.
pub(super) fn name_of(param: &Param) -> String {
    let names = bindings(param.pat()).unwrap_or_default();
    match &names[..] {
        [name] => name.to_string(),
        _ => code(param.pat()),
    }
}

fn connection_of(pool: &Type) -> &'static str {
    let text = code(pool);
    if text.contains("Sqlite") {
        "SqliteConnection"
    } else {
        "PgConnection"
    }
}

/// rustc takes no documentation there, and would say so of an attribute that nobody has written.
fn check_documented(param: &Param, mistakes: &Mistakes) {
    let mut attrs = param.typed.attrs.iter();
    if let Some(attr) = attrs.find(|attr| attr.path().is_ident("doc")) {
        let what = format!(
            "`{}` cannot be documented; it is a parameter",
            name_of(param)
        );
        let help = "write a comment with two slashes, `// …`, or document the function";
        mistakes.add(attr, what, help);
    }
}

/// The generated function passes every argument on, so all must be there.
fn check_conditional(param: &Param, mistakes: &Mistakes) {
    for attr in &param.typed.attrs {
        if attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") {
            let what = format!("`{}` is there only sometimes", name_of(param));
            let help = "write two handlers, and put `#[cfg(…)]` on each";
            mistakes.add(attr, what, help);
        }
    }
}
