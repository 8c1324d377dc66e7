//! What the signature must look like.

use syn::{GenericArgument, GenericParam, Lifetime, PathArguments, ReturnType, Type};

use super::mode::{Wrapped, wrapped_connection};
use super::parameters::name_of;
use crate::diag::{Mistakes, code};
use crate::handler::Handler;
use crate::role::{Misuse, Role, ungrouped};

pub(crate) fn check(handler: &Handler, mistakes: &Mistakes) {
    check_async(handler, mistakes);
    check_qualifiers(handler, mistakes);
    check_receiver(handler, mistakes);
    check_variadic(handler, mistakes);
    check_self_type(handler, mistakes);
    check_lifetimes(handler, mistakes);
    check_output(handler, mistakes);
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

/// A request has no list of arguments without an end.
fn check_variadic(handler: &Handler, mistakes: &Mistakes) {
    if let Some(variadic) = &handler.sig.variadic {
        let what = "`...` is for functions of C; an extractor says what it takes";
        mistakes.add(variadic, what, "remove it");
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

/// The response is sent after the handler and its arguments are gone.
fn check_output(handler: &Handler, mistakes: &Mistakes) {
    let ReturnType::Type(_, ty) = &handler.sig.output else {
        return;
    };
    if matches!(ungrouped(ty), Type::Never(_)) {
        let what = format!(
            "`{}` never returns; there would be no response",
            handler.name()
        );
        let help = "write what it answers with, such as `-> StatusCode`";
        mistakes.add(ty, what, help);
    } else if let Some(any) = some_trait(ty) {
        let what = format!("`{}` is a trait, and has no size of its own", code(ty));
        mistakes.add(ty, what, format!("write `impl {any}`"));
    } else if let Some(borrowed) = borrowed(ty) {
        let what = format!(
            "`{}` borrows from an argument; the response outlives them all",
            code(borrowed)
        );
        let help = match ungrouped(borrowed) {
            Type::Reference(reference) if code(&reference.elem) == "str" => {
                "return what is owned, `String`, or `&'static str`".to_owned()
            }
            Type::Reference(reference) => {
                let elem = code(&reference.elem);
                format!("return what is owned, `{elem}`, or `&'static {elem}`")
            }
            _ => "return what is owned, or write `'static` instead of `'_`".to_owned(),
        };
        mistakes.add(borrowed, what, help);
    }
}

/// The bounds of a `dyn IntoResponse`, or of an `IntoResponse` that lacks its `impl`.
pub(crate) fn some_trait(ty: &Type) -> Option<String> {
    match ungrouped(ty) {
        Type::TraitObject(object) => Some(code(&object.bounds)),
        Type::Path(path) if path.path.segments.last()?.ident == "IntoResponse" => Some(code(path)),
        _ => None,
    }
}

/// A part of the type whose lifetime is left out, and so is that of an argument.
pub(super) fn borrowed(ty: &Type) -> Option<&Type> {
    let elided = |lifetime: &Lifetime| lifetime.ident == "_";
    match ungrouped(ty) {
        Type::Reference(reference) if reference.lifetime.as_ref().is_none_or(elided) => Some(ty),
        Type::Reference(reference) => borrowed(&reference.elem),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(borrowed),
        Type::Array(array) => borrowed(&array.elem),
        Type::Path(path) => match &path.path.segments.last()?.arguments {
            PathArguments::AngleBracketed(inside) => {
                inside.args.iter().find_map(|argument| match argument {
                    GenericArgument::Lifetime(lifetime) if elided(lifetime) => Some(ty),
                    GenericArgument::Type(ty) => borrowed(ty),
                    _ => None,
                })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Arguments are owned by the task that runs the handler; the references live
/// as long as the call. Neither has a lifetime that a caller could choose.
fn check_lifetimes(handler: &Handler, mistakes: &Mistakes) {
    // The lifetime of an `E: Executor<'e>` goes with it.
    let generics = match wrapped_connection(handler) {
        Some((_, Wrapped::Generic)) => None,
        _ => Some(&handler.sig.generics.params),
    };
    for param in generics.into_iter().flatten() {
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
        // What cannot be borrowed at all is reported as such.
        let lifetime = match param.role {
            Role::Misused(Misuse::Text | Misuse::Reference) => None,
            _ => reference.lifetime.as_ref(),
        };
        if let Some(lifetime) = lifetime.filter(|lifetime| lifetime.ident == "static") {
            let mut without = reference.clone();
            without.lifetime = None;
            let what = format!("`{}` does not outlive the call", name_of(param));
            let help = format!("write `{}: {}`", name_of(param), code(without));
            mistakes.add(lifetime, what, help);
        }
    }
}
