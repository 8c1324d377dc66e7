//! The signature chooses the guarantee: by its transaction, or by its lease.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::Type;

use super::Features;
use super::borrowing::holds_a_lease;
use super::database;
use super::parameters::{impl_trait, name_of};
use crate::diag::{Mistakes, code};
use crate::handler::{Handler, Param};
use crate::inner::mentions;
use crate::role::{Misuse, Role, last_name};

pub(crate) fn check(handler: &Handler, features: Features, mistakes: &Mistakes) {
    check_mode(handler, features, mistakes);
    check_repeated_references(handler, mistakes);
    for param in &handler.params {
        database::check(handler, param, features, mistakes);
    }
}

/// The signature chooses the guarantee; without a transaction or a lease there
/// is none.
fn check_mode(handler: &Handler, features: Features, mistakes: &Mistakes) {
    let (name, suggestion) = (handler.name(), features.suggested_transaction());
    let meant = handler.params.iter().any(|param| match param.role {
        Role::Misused(misuse) => misuse.is_mode(),
        _ => holds_a_lease(param),
    });
    match (handler.transaction(), handler.lease()) {
        (None, None) if let Some((param, wrapped)) = wrapped_connection(handler) => {
            let (pat, ty) = (name_of(param), code(param.ty()));
            let what = match wrapped {
                Wrapped::Type => format!("`{ty}` is not the transaction that holds the key"),
                Wrapped::Generic => {
                    format!(
                        "`{ty}` could be any connection, and must be the transaction that holds the key"
                    )
                }
            };
            let help = format!(
                "take the transaction as it is lent: `{pat}: {}`",
                suggestion.trim_start_matches("tx: ")
            );
            mistakes.add(param.ty(), what, help);
        }
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

pub(crate) enum Wrapped {
    /// `Arc<Mutex<PgConnection>>`
    Type,
    /// `E`, where `E: Executor<'e>`
    Generic,
}

/// The parameter of a handler without a mode that was probably meant to be its
/// transaction.
pub(crate) fn wrapped_connection(handler: &Handler) -> Option<(&Param, Wrapped)> {
    if handler.transaction().is_some() || handler.lease().is_some() {
        return None;
    }
    let connections = [
        "PgConnection",
        "SqliteConnection",
        "Transaction",
        "PoolConnection",
    ];
    let generic = |ty: &Type| {
        if let Some(any) = impl_trait(ty) {
            return executes(any.to_token_stream());
        }
        let Some((name, _)) = last_name(ty) else {
            return false;
        };
        let mut params = handler.sig.generics.type_params();
        params.any(|param| param.ident == name && executes(param.bounds.to_token_stream()))
    };
    handler.params.iter().find_map(|param| {
        let ty = param.ty();
        let wraps = || {
            let tokens = ty.to_token_stream();
            let mut connections = connections.iter().map(|word| format_ident!("{word}"));
            connections.any(|word| mentions(&tokens, &word))
        };
        match param.role {
            Role::Extractor if generic(ty) => Some((param, Wrapped::Generic)),
            Role::Extractor | Role::Misused(Misuse::Reference) if wraps() => {
                Some((param, Wrapped::Type))
            }
            _ => None,
        }
    })
}

/// Whether a bound is sqlx's `Executor`, `PgExecutor`, or `Acquire`.
fn executes(bounds: TokenStream) -> bool {
    bounds.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "Acquire" || word.to_string().ends_with("Executor"),
        TokenTree::Group(group) => executes(group.stream()),
        _ => false,
    })
}

/// A handler is one of axum's; a consumer of messages needs nothing of it.
pub(super) fn check_http(handler: &Handler, features: Features, mistakes: &Mistakes) {
    if !features.axum {
        let name = handler.name();
        let what = format!("`idem-runtime` was built without axum, which calls `{name}`");
        let help = "write `idem-runtime = { …, features = [\"axum\"] }` in `Cargo.toml`";
        mistakes.add(name, what, help);
    }
}
