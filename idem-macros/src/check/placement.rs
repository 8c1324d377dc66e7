//! Where the attribute may stand.

use proc_macro2::TokenTree;
use syn::{Attribute, Meta};

use crate::attributes::last_is;
use crate::diag::Mistakes;
use crate::handler::Handler;
use crate::names;
use crate::options::Options;

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

pub(crate) fn check(handler: &Handler, options: &Options, mistakes: &Mistakes) -> Verdict {
    check_twice(handler, options, mistakes);
    check_route_description(handler, mistakes);
    for check in [check_async_trait, check_body, check_main] {
        if check(handler, mistakes).is_misplaced() {
            return Verdict::Misplaced;
        }
    }
    Verdict::Placed
}

/// One handler has one key. The second attribute would claim inside the first.
fn check_twice(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    let is_complete = |name| options.garbled || options.given(name).is_some();
    let help = if [names::SCOPE, names::TENANT].into_iter().all(is_complete) {
        "remove this attribute"
    } else {
        "write its options in the attribute above, and remove this one"
    };
    for attr in handler.attrs.iter().filter(|attr| is_ours(attr)) {
        let what = format!("`{}` is idempotent already", handler.name());
        mistakes.add(attr, what, help);
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

/// It expands before the attributes of its methods, and what it makes of one is no handler.
fn check_async_trait(handler: &Handler, mistakes: &Mistakes) -> Verdict {
    if !handler.is_of_async_trait() {
        return Verdict::Placed;
    }
    let name = handler.name();
    let what =
        format!("`{name}` is a method under `#[async_trait]`; a trait method cannot be a handler");
    let help = format!("write a function outside of the trait: `async fn {name}(…) {{ … }}`");
    mistakes.add(name, what, help);
    Verdict::Misplaced
}

/// A trait method without a body has nothing to run.
fn check_body(handler: &Handler, mistakes: &Mistakes) -> Verdict {
    if handler.has_body() {
        return Verdict::Placed;
    }
    let name = handler.name();
    let what = format!("`{name}` has no body; there is nothing to run");
    let help = format!("write `async fn {name}(…) {{ … }}`, outside of a trait");
    mistakes.add(name, what, help);
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
