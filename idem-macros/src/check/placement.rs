//! Where the attribute may stand.

use proc_macro2::TokenTree;
use syn::{Attribute, Meta};

use crate::attributes::last_is;
use crate::diag::Mistakes;
use crate::handler::Handler;

/// Whether the other rules make sense here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Placed,
    Misplaced,
}

impl Verdict {
    pub(crate) fn is_misplaced(self) -> bool {
        self == Self::Misplaced
    }
}

pub(crate) fn check(handler: &Handler, mistakes: &Mistakes) -> Verdict {
    check_twice(handler, mistakes);
    check_route_description(handler, mistakes);
    match check_body(handler, mistakes) {
        Verdict::Placed => check_main(handler, mistakes),
        Verdict::Misplaced => Verdict::Misplaced,
    }
}

/// One handler has one key. The second attribute would claim inside the first.
fn check_twice(handler: &Handler, mistakes: &Mistakes) {
    for attr in &handler.attrs {
        if is_ours(attr) {
            let what = format!("`{}` is idempotent already", handler.name());
            mistakes.add(attr, what, "remove this attribute");
        }
    }
}

/// By its name, or, where it was imported under another, by what only it takes.
pub(crate) fn is_ours(attr: &Attribute) -> bool {
    let options: Vec<_> = match &attr.meta {
        Meta::List(list) => list.tokens.clone().into_iter().collect(),
        _ => Vec::new(),
    };
    let takes = |option: &str| {
        options.windows(2).any(|pair| {
            let sets = matches!(&pair[1], TokenTree::Punct(sign) if sign.as_char() == '=');
            sets && matches!(&pair[0], TokenTree::Ident(name) if name == option)
        })
    };
    last_is(attr.path(), "idempotent")
        || (attr.path().get_ident().is_some() && takes("scope") && takes("tenant"))
}

/// `#[utoipa::path]` describes the parameters that it sees and adds an item
/// beside the function: it must see the user's function, as an item.
fn check_route_description(handler: &Handler, mistakes: &Mistakes) {
    for attr in &handler.attrs {
        let path = attr.path();
        if path.segments.len() == 2 && path.segments[0].ident == "utoipa" && last_is(path, "path") {
            let what = "`#[utoipa::path]` cannot describe what `#[idempotent]` has expanded";
            mistakes.add(
                attr,
                what,
                "move `#[utoipa::path(…)]` above `#[idempotent(…)]`",
            );
        }
    }
}

/// A trait method without a body has nothing to run.
fn check_body(handler: &Handler, mistakes: &Mistakes) -> Verdict {
    if handler.has_body() {
        return Verdict::Placed;
    }
    let name = handler.name();
    let what = format!("`{name}` has no body; a trait method cannot be a handler");
    mistakes.add(
        name,
        what,
        format!("write a function outside the trait: `async fn {name}(…) {{ … }}`"),
    );
    Verdict::Misplaced
}

/// The program's entry point takes no request.
fn check_main(handler: &Handler, mistakes: &Mistakes) -> Verdict {
    if !handler.is_entry_point() {
        return Verdict::Placed;
    }
    let what = "`main` starts the program; `#[idempotent]` is for the handlers of requests";
    mistakes.add(
        handler.name(),
        what,
        "move the attribute to a handler such as `async fn create_payment(…)`",
    );
    Verdict::Misplaced
}
