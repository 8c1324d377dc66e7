//! What the extractors and the response must look like, as far as their names
//! tell. axum's own types are recognised by their last name, as axum's
//! `#[debug_handler]` does; other types are left to rustc.

use syn::{GenericArgument, Pat, PathArguments, ReturnType, Type};

use super::borrowing::lent_inside;
use super::mode::wrapped_connection;
use super::parameters::impl_trait;
use crate::diag::{Mistakes, code};
use crate::handler::{Handler, Param};
use crate::role::{is_named_by, last_name, ungrouped};

/// axum implements `Handler` for functions of up to 16 arguments.
pub(crate) const MAX_EXTRACTORS: usize = 16;

/// Where what is in the prelude comes from.
const STD: [&str; 2] = ["alloc", "std"];

pub(crate) fn check(handler: &Handler, mistakes: &Mistakes) {
    check_count(handler, mistakes);
    check_body_is_last(handler, mistakes);
    check_upgrade(handler, mistakes);
    check_stream(handler, mistakes);
    check_plain_values(handler, mistakes);
}

/// The transaction, the lease, and the claim do not count.
fn check_count(handler: &Handler, mistakes: &Mistakes) {
    if let Some(param) = handler.extractors().nth(MAX_EXTRACTORS) {
        let what = format!("more than {MAX_EXTRACTORS} extractors; axum takes no more");
        let help = "put two of them into a tuple: `(a, b): (ExtractorA, ExtractorB)`";
        mistakes.add(&param.typed, what, help);
    }
}

/// A request has one body, and an extractor that reads it leaves nothing for
/// those behind it.
fn check_body_is_last(handler: &Handler, mistakes: &Mistakes) {
    let last = handler.extractors().last().map(|param| param.index);
    let readers: Vec<_> = handler
        .extractors()
        .filter(|param| reads_body(param.ty()))
        .collect();
    if let [first, second, ..] = readers[..] {
        let (first, second) = (code(first.ty()), code(second.ty()));
        let what = format!("`{first}` and `{second}` both read the body; there is one");
        let help = format!("keep one of the two; `{first}` can also be a part of the other's type");
        return mistakes.add(readers[1].ty(), what, help);
    }
    if let Some(&param) = readers.first()
        && Some(param.index) != last
    {
        let (pat, ty) = (code(param.pat()), code(param.ty()));
        let what = format!("`{ty}` reads the body, so it must be the last extractor");
        mistakes.add(param.ty(), what, format!("move `{pat}: {ty}` to the end"));
    }
}

/// A number or a list says nothing about where in the request it stands.
fn check_plain_values(handler: &Handler, mistakes: &Mistakes) {
    for param in handler.extractors() {
        let ty = code(param.ty());
        // `Path(id): i64` has said already where it is.
        let pat = match param.pat() {
            Pat::TupleStruct(pat) => code(&pat.elems),
            pat => code(pat),
        };
        let what = format!("`{ty}` is no extractor; it could be anywhere in the request");
        let help = match plain_value(param.ty()) {
            Some(Plain::Scalar) => match param.pat() {
                Pat::TupleStruct(it) => {
                    format!("write `{}: {}<{ty}>`", code(it), code(&it.path))
                }
                _ => format!("say where it is: `Path({pat}): Path<{ty}>`"),
            },
            Some(Plain::Bytes) => "take the body as it is: `body: axum::body::Bytes`".to_owned(),
            Some(Plain::Collection) => {
                format!("say what it is made of: `Json({pat}): Json<{ty}>`")
            }
            None => continue,
        };
        mistakes.add(param.ty(), what, help);
    }
}

pub(crate) fn is_plain_value(ty: &Type) -> bool {
    plain_value(ty).is_some()
}

enum Plain {
    Scalar,
    Bytes,
    Collection,
}

fn plain_value(ty: &Type) -> Option<Plain> {
    let (name, path) = last_name(ty)?;
    if !is_named_by(path, &STD) {
        return None;
    }
    match (&*name, path.get_ident().is_some()) {
        (
            "bool" | "char" | "f32" | "f64" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize"
            | "u8" | "u16" | "u32" | "u64" | "u128" | "usize",
            true,
        ) => Some(Plain::Scalar),
        ("Vec", false) if code(ty).ends_with("Vec<u8>") => Some(Plain::Bytes),
        ("Vec" | "HashMap" | "BTreeMap" | "HashSet" | "BTreeSet", false) => Some(Plain::Collection),
        _ => None,
    }
}

pub(crate) fn reads_body(ty: &Type) -> bool {
    let Some((name, path)) = last_name(ty) else {
        return false;
    };
    if name == "String" && !is_named_by(path, &STD) {
        return false;
    }
    let arguments: Vec<_> = match path.segments.last().map(|segment| &segment.arguments) {
        Some(PathArguments::AngleBracketed(list)) => list.args.iter().collect(),
        _ => Vec::new(),
    };
    match (&*name, &arguments[..]) {
        ("Json" | "Form" | "Request", [_])
        | ("Bytes" | "String" | "Multipart" | "RawForm" | "Body" | "Request", []) => true,
        ("Option", [GenericArgument::Type(ty)]) | ("Result", [GenericArgument::Type(ty), ..]) => {
            reads_body(ty)
        }
        _ => false,
    }
}

/// After an upgrade there is no response to keep.
fn check_upgrade(handler: &Handler, mistakes: &Mistakes) {
    for param in handler.extractors() {
        if matches!(last_name(param.ty()), Some((name, _)) if name == "WebSocketUpgrade") {
            let what = "a connection that is upgraded has no response that could be replayed";
            let help = "use a handler without `#[idempotent]` for the upgrade";
            mistakes.add(param.ty(), what, help);
        }
    }
}

/// A stream of events has no end, so it cannot be stored.
fn check_stream(handler: &Handler, mistakes: &Mistakes) {
    if let ReturnType::Type(_, ty) = &handler.sig.output
        && let Some(sse) = find_sse(ty)
    {
        let what = format!(
            "`{}` streams; a retry could not get the same answer",
            code(sse)
        );
        let help =
            "answer with the id of a resource, and stream from a handler without `#[idempotent]`";
        mistakes.add(sse, what, help);
    }
}

fn find_sse(ty: &Type) -> Option<&Type> {
    match ungrouped(ty) {
        Type::Tuple(tuple) => tuple.elems.iter().find_map(find_sse),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            if last.ident == "Sse" {
                return Some(ty);
            }
            let PathArguments::AngleBracketed(inside) = &last.arguments else {
                return None;
            };
            inside.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => find_sse(ty),
                _ => None,
            })
        }
        _ => None,
    }
}

/// The extractors in an order that axum accepts, for the repaired function.
pub(crate) fn acceptable(handler: &Handler) -> Vec<&Param> {
    let refused = |param: &&Param| {
        let connection = wrapped_connection(handler).map(|(param, _)| param.index);
        plain_value(param.ty()).is_some()
            || impl_trait(param.ty()).is_some()
            || lent_inside(handler, param).is_some()
            || connection == Some(param.index)
    };
    let (readers, mut parts): (Vec<_>, Vec<_>) = handler
        .extractors()
        .filter(|param| !refused(param))
        .partition(|param| reads_body(param.ty()));
    let reader = readers.last().copied();
    parts.truncate(MAX_EXTRACTORS - usize::from(reader.is_some()));
    parts.extend(reader);
    parts
}
