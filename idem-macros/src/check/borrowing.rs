//! What an extractor may not borrow, and what is lent without one.

use syn::Type;

use super::mode::wrapped_connection;
use super::parameters::{name_of, reference_to};
use super::signature::borrowed;
use crate::diag::{Mistakes, code};
use crate::handler::{Handler, Param};
use crate::message::is_wanted;
use crate::options::Options;
use crate::role::{Role, last_name, last_type_argument, ungrouped};

/// The handler runs in a task of its own, which outlives what an extractor could borrow from.
pub(super) fn check(handler: &Handler, options: &Options, param: &Param, mistakes: &Mistakes) {
    let Some(part) = lent_inside(handler, param) else {
        return;
    };
    let (whole, text) = (code(param.ty()), code(part));
    let lent = last_name(reference_to(ungrouped(part))).map(|(name, _)| name);
    if matches!(lent.as_deref(), Some("Lease" | "Claim")) {
        let lent = text.trim_start_matches('&');
        let what = format!("`{whole}` cannot be filled; `&{lent}` is lent as it is");
        let help = format!("write `{}: &{lent}`", name_of(param));
        return mistakes.add(param.ty(), what, help);
    }
    let what = if is_wanted(options) {
        format!("`{text}` is borrowed; a message is owned by the one who consumes it")
    } else {
        format!("`{text}` is borrowed; an extractor is owned")
    };
    let owned = match ungrouped(part) {
        Type::Reference(reference) => match &*code(&reference.elem) {
            "str" => "String".to_owned(),
            elem => match ungrouped(&reference.elem) {
                Type::Slice(slice) => format!("Vec<{}>", code(&slice.elem)),
                _ => elem.to_owned(),
            },
        },
        _ => text.replace("'_", "'static"),
    };
    let help = format!(
        "write `{}: {}`",
        code(param.pat()),
        whole.replacen(&text, &owned, 1)
    );
    mistakes.add(part, what, help);
}

/// What an extractor borrows, such as the `&str` of a `Path<&str>`.
pub(super) fn lent_inside<'a>(handler: &Handler, param: &'a Param) -> Option<&'a Type> {
    let is_connection = wrapped_connection(handler).is_some_and(|(it, _)| it.index == param.index);
    let looks = matches!(param.role, Role::Extractor) && !is_connection;
    let find = || lease_inside(param.ty()).or_else(|| borrowed(param.ty()));
    looks.then(find).flatten()
}

/// The `Lease<Postgres>` of an `Arc<Lease<Postgres>>`, or the `&Lease<Postgres>` of an `Option`.
fn lease_inside(ty: &Type) -> Option<&Type> {
    let (wrapper, path) = last_name(ty)?;
    let inside = path.segments.last().and_then(last_type_argument)?;
    let (name, path) = last_name(reference_to(ungrouped(inside)))?;
    let lease = name == "Lease" && path.segments.last().and_then(last_type_argument).is_some();
    let holds = ["Arc", "Box", "Mutex", "Option", "Rc"].contains(&&*wrapper);
    (holds && lease).then_some(inside)
}

/// Whether a lease was meant, so that no transaction is missing.
pub(super) fn holds_a_lease(param: &Param) -> bool {
    lease_inside(param.ty()).is_some()
}
