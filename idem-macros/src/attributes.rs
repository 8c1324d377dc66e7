//! The other attributes of the handler: which go to the generated outer
//! function, and which stay on the user's own.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Path, Token, parse_quote};

/// The attributes of a handler, parted.
#[derive(Default)]
pub(crate) struct Placed {
    /// About the item: documentation, lint levels, `#[cfg]`.
    pub(crate) outer: Vec<Attribute>,
    /// About the code: they see the function as the user wrote it.
    pub(crate) inner: Vec<Attribute>,
}

/// Built-in attributes that describe the item. Lint levels reach the inner
/// function too, since it is nested. `must_use` is about what the user's function
/// returns; the future of the outer one says it of itself.
const ABOUT_THE_ITEM: [&str; 11] = [
    "allow",
    "cfg",
    "cold",
    "deny",
    "deprecated",
    "doc",
    "expect",
    "forbid",
    "inline",
    "track_caller",
    "warn",
];

/// Namespaces of tools.
const TOOLS: [&str; 4] = ["clippy", "diagnostic", "rust_analyzer", "rustfmt"];

pub(crate) fn place(attrs: &[Attribute]) -> Placed {
    let mut placed = Placed::default();
    for attr in attrs {
        if attr.path().is_ident("cfg_attr") {
            place_conditional(attr, &mut placed);
        } else if last_is(attr.path(), "debug_handler") {
            // Carried out by the expansion.
        } else if is_about_the_item(attr.path()) {
            placed.outer.push(attr.clone());
        } else {
            placed.inner.push(attr.clone());
        }
    }
    placed
}

/// Parts `#[cfg_attr(condition, outer, inner)]` into one for each place.
fn place_conditional(attr: &Attribute, placed: &mut Placed) {
    let all = Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(all) = attr.parse_args_with(all) else {
        // Not ours to report.
        return placed.outer.push(attr.clone());
    };
    let mut all = all.into_iter();
    let Some(condition) = all.next() else {
        return placed.outer.push(attr.clone());
    };
    let all = all.filter(|meta| !last_is(meta.path(), "debug_handler"));
    let (outer, inner): (Vec<_>, Vec<_>) = all.partition(|meta| is_about_the_item(meta.path()));
    if !outer.is_empty() {
        placed
            .outer
            .push(parse_quote!(#[cfg_attr(#condition, #(#outer),*)]));
    }
    if !inner.is_empty() {
        placed
            .inner
            .push(parse_quote!(#[cfg_attr(#condition, #(#inner),*)]));
    }
}

fn is_about_the_item(path: &Path) -> bool {
    let first = path.segments.first();
    let is_tool = path.segments.len() > 1
        && first.is_some_and(|first| TOOLS.iter().any(|tool| first.ident == tool));
    is_tool || ABOUT_THE_ITEM.iter().any(|name| path.is_ident(name))
}

/// Whether a path ends in `name`, however it was imported.
pub(crate) fn last_is(path: &Path, name: &str) -> bool {
    let last = path.segments.last();
    last.is_some_and(|last| last.ident == name)
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens, quote};
    use syn::parse::Parser;

    use super::*;

    #[test]
    fn each_attribute_goes_to_its_place() {
        let attrs = Attribute::parse_outer
            .parse2(quote! {
                /// Pays.
                #[allow(dead_code)]
                #[tracing::instrument(skip_all)]
                #[axum::debug_handler]
                #[cfg_attr(test, cold, instrument)]
                #[rustfmt::skip]
            })
            .expect("attributes");
        let placed = place(&attrs);
        let text = |attrs: Vec<Attribute>| quote!(#(#attrs)*).to_string();
        let outer = quote! {
            /// Pays.
            #[allow(dead_code)]
            #[cfg_attr(test, cold)]
            #[rustfmt::skip]
        };
        let inner = quote! {
            #[tracing::instrument(skip_all)]
            #[cfg_attr(test, instrument)]
        };
        assert_eq!(text(placed.outer), outer.into_token_stream().to_string());
        assert_eq!(text(placed.inner), inner.to_string());
    }
}
