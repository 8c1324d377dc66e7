//! What the signature must look like.

use syn::{GenericParam, Type};

use super::Backends;
use crate::diag::{Mistakes, code};
use crate::handler::{Handler, Param};
use crate::patterns::bindings;
use crate::role::{Database, Misuse, Role, database, ungrouped};

pub(crate) fn check(handler: &Handler, backends: Backends, mistakes: &Mistakes) {
    check_async(handler, mistakes);
    check_qualifiers(handler, mistakes);
    check_receiver(handler, mistakes);
    check_self_type(handler, mistakes);
    check_lifetimes(handler, mistakes);
    check_mode(handler, backends, mistakes);
    check_repeated_references(handler, mistakes);
    for param in &handler.params {
        check_reference(param, mistakes);
        check_conditional(param, mistakes);
        check_backend(param, backends, mistakes);
    }
}

/// The runtime awaits the handler in a task of its own.
fn check_async(handler: &Handler, mistakes: &Mistakes) {
    let (sig, name) = (&handler.sig, handler.name());
    // A `const fn` cannot be `async`: one mistake, reported as such.
    if sig.asyncness.is_none() && sig.constness.is_none() {
        let what = format!("`{name}` is not `async`");
        mistakes.add(sig.fn_token, what, format!("write `async fn {name}(…)`"));
    }
}

/// The runtime calls the handler like any axum handler: from safe code, at run
/// time, with Rust's own calling convention.
fn check_qualifiers(handler: &Handler, mistakes: &Mistakes) {
    let name = handler.name();
    if let Some(token) = &handler.sig.constness {
        let what = format!("`{name}` is `const`; a handler runs for each request");
        mistakes.add(token, what, format!("write `async fn {name}(…)`"));
    }
    if let Some(token) = &handler.sig.unsafety {
        let what = format!("`{name}` is `unsafe`; the router calls it from safe code");
        mistakes.add(
            token,
            what,
            "remove `unsafe`, and write `unsafe { … }` in the body",
        );
    }
    if let Some(abi) = &handler.sig.abi {
        let what = format!(
            "`{name}` is `{}`; the router calls Rust functions",
            code(abi)
        );
        mistakes.add(abi, what, format!("remove `{}`", code(abi)));
    }
}

/// A router holds functions, and a request carries no `self`.
fn check_receiver(handler: &Handler, mistakes: &Mistakes) {
    if let Some(receiver) = handler.receiver() {
        let what = "a handler has no `self`; nothing in a request could fill it";
        let help = "take what it needs from the router's state: `State(payments): State<Payments>`";
        mistakes.add(receiver, what, help);
    }
}

/// The user's function is nested in the generated one, and a nested function
/// cannot name the `Self` of the `impl` block around it.
fn check_self_type(handler: &Handler, mistakes: &Mistakes) {
    if handler.receiver().is_some() {
        return;
    }
    if let Some(span) = handler.outer_self() {
        let what =
            "`Self` cannot be used in an idempotent handler; its body moves into a nested function";
        mistakes.add_at(span, what, "write the type's name instead of `Self`");
    }
}

/// Arguments are owned by the task that runs the handler; the references live
/// as long as the call. Neither has a lifetime that a caller could choose.
fn check_lifetimes(handler: &Handler, mistakes: &Mistakes) {
    for param in &handler.sig.generics.params {
        if let GenericParam::Lifetime(lifetime) = param {
            let lifetime = &lifetime.lifetime;
            let what =
                format!("a handler cannot be generic over `{lifetime}`; no caller chooses it");
            mistakes.add(
                lifetime,
                what,
                "remove it, and write references without a lifetime",
            );
        }
    }
    for param in &handler.params {
        let Type::Reference(reference) = ungrouped(param.ty()) else {
            continue;
        };
        let lifetime = reference.lifetime.as_ref();
        if let Some(lifetime) = lifetime.filter(|lifetime| lifetime.ident == "static") {
            let mut without = reference.clone();
            without.lifetime = None;
            let what = format!("`{}` does not outlive the call", name_of(param));
            let help = format!("write `{}: {}`", name_of(param), code(without));
            mistakes.add(lifetime, what, help);
        }
    }
}

/// The signature chooses the guarantee; without a transaction or a lease there
/// is none.
fn check_mode(handler: &Handler, backends: Backends, mistakes: &Mistakes) {
    let (name, suggestion) = (handler.name(), backends.suggested_transaction());
    let meant = handler.params.iter().any(|param| match param.role {
        Role::Misused(misuse) => misuse.is_mode(),
        _ => false,
    });
    match (handler.transaction(), handler.lease()) {
        (None, None) if !meant => {
            let what = format!(
                "`{name}` has no transaction; without it a retry could repeat what it wrote"
            );
            let help = format!("add the parameter `{suggestion}`, and write through it");
            mistakes.add(name, what, help);
        }
        (Some(tx), Some(lease)) => {
            let (tx, lease_pat) = (name_of(tx), name_of(lease));
            let what = format!(
                "`{name}` takes both a transaction and a lease; a lease is for effects outside the database"
            );
            let help = format!(
                "remove `{lease_pat}`, or remove `{tx}` and write in `{lease_pat}.transaction(…)`"
            );
            mistakes.add(&lease.typed, what, help);
        }
        _ => {}
    }
}

/// There is one transaction, one lease, and one claim.
fn check_repeated_references(handler: &Handler, mistakes: &Mistakes) {
    let mut seen: Vec<(&str, &Param)> = Vec::new();
    for param in &handler.params {
        let kind = match param.role {
            Role::Transaction(_) => "transaction",
            Role::Lease(_) => "lease",
            Role::Claim => "claim",
            Role::Extractor | Role::Misused(_) => continue,
        };
        if let Some((_, first)) = seen.iter().find(|(seen, _)| *seen == kind) {
            let what = format!("a second {kind}; the handler runs in one");
            let help = format!("remove it, and use `{}`", name_of(first));
            mistakes.add(&param.typed, what, help);
        } else {
            seen.push((kind, param));
        }
    }
}

/// A reference is a transaction, a lease, or the claim; anything else comes
/// out of the request, owned.
fn check_reference(param: &Param, mistakes: &Mistakes) {
    let Role::Misused(misuse) = param.role else {
        return;
    };
    let (pat, ty) = (name_of(param), ungrouped(param.ty()));
    let owned = match ty {
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
            format!("`{pat}` is lent to the handler by `&`, not given"),
            format!("write `{pat}: &{owned}`"),
        ),
        Misuse::Pool => (
            format!("`{pat}` is a pool; what is written through it is outside the transaction"),
            format!("take the transaction, `tx: &mut {}`", connection_of(ty)),
        ),
        Misuse::LeaseOfWhat => (
            format!("`{pat}` does not say whose lease it is"),
            format!("name the database: `{pat}: &Lease<Postgres>`"),
        ),
        Misuse::Text => (
            format!("`{pat}` is borrowed; an extractor is owned"),
            format!("write `{pat}: String`"),
        ),
        Misuse::Reference => (
            format!("`{pat}` is borrowed; an extractor is owned, and {references}"),
            format!("write `{pat}: {owned}`"),
        ),
        Misuse::MutableReference => (
            format!("`{pat}` is no transaction that `#[idempotent]` knows; {references}"),
            format!("write the type in full, such as `{pat}: &mut PgConnection`"),
        ),
    };
    mistakes.add(ty, what, help);
}

/// The pattern as a person refers to it: `tx` for `mut tx`.
fn name_of(param: &Param) -> String {
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

/// The runtime speaks only to the databases whose feature is on.
fn check_backend(param: &Param, backends: Backends, mistakes: &Mistakes) {
    let wanted = match &param.role {
        Role::Transaction(database) => *database,
        Role::Lease(ty) => database(ty),
        Role::Extractor | Role::Claim | Role::Misused(_) => return,
    };
    let (what, feature) = match wanted {
        Database::Postgres if !backends.postgres => ("PostgreSQL", "postgres"),
        Database::Sqlite if !backends.sqlite => ("SQLite", "sqlite"),
        Database::MySql => {
            let what = "`idem-runtime` does not speak to MySQL";
            let help = "use `&mut PgConnection` or `&mut SqliteConnection`";
            return mistakes.add(ungrouped(param.ty()), what, help);
        }
        _ => return,
    };
    let what = format!("`idem-runtime` was built without {what}");
    let help =
        format!("write `idem-runtime = {{ …, features = [\"{feature}\"] }}` in `Cargo.toml`");
    mistakes.add(ungrouped(param.ty()), what, help);
}
