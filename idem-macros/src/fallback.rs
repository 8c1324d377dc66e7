//! What stands in for the handler after a mistake.
//!
//! The route still finds a function that axum accepts, so it does not report
//! the mistake a second time; the user's function is nested inside, so its
//! body is still checked and completed by the editor.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{
    FnArg, GenericParam, Pat, ReturnType, Signature, Type, Visibility, WherePredicate, parse_quote,
};

use crate::above::Around;
use crate::attributes::{last_is, place};
use crate::check::{acceptable, any_database, is_ours, wrapped_connection};
use crate::diag::code;
use crate::expand::runtime;
use crate::handler::Handler;
use crate::inner::{mentions, with_uses};
use crate::message;
use crate::options::Options;
use crate::patterns::bindings;
use crate::role::{Misuse, Role, last_name, ungrouped};
use crate::signature::{outer_signature, repaired_signature, with_own_brackets};

/// Writes a handler that takes the extractors and does nothing, or a consumer
/// that takes the message.
///
/// What a trait asks for has to stay as it is.
pub(crate) fn expand(
    handler: &Handler,
    options: &Options,
    around: impl Fn() -> Around,
) -> TokenStream {
    let mut attrs = handler.attrs.clone();
    // Each would report again, or act on a function that is not the user's.
    attrs.retain(|attr| !is_ours(attr) && !last_is(attr.path(), "path"));
    // No trait says `pub` of its methods.
    let is_public = !matches!(handler.vis, Visibility::Inherited);
    let around = match handler.receiver() {
        None if handler.has_body() => Around::Module,
        _ if is_public && around() != Around::Module => Around::Impl,
        _ => around(),
    };
    let as_it_is = matches!(around, Around::Trait | Around::Unknown);
    if as_it_is || handler.is_of_async_trait() || handler.is_entry_point() {
        return verbatim(handler, &attrs);
    }
    let attrs = place(&attrs);
    let (outer_attrs, vis) = (&attrs.outer, &handler.vis);
    let (inputs, output, body) = match message::repaired(handler, options) {
        Some((inputs, output)) => (inputs, output, Some(message::no_body())),
        None => (extractors(handler), ReturnType::Default, None),
    };
    let mut signature = outer_signature(handler, inputs, output);
    without_the_connection(handler, &mut signature);
    let signature = with_own_brackets(&signature);
    let nests =
        handler.has_body() && handler.outer_self().is_none() && handler.receiver().is_none();
    let inner = (nests && !is_refused_by_rustc(handler))
        .then(|| inner_function(handler, options, &attrs.inner));
    let beside = (around == Around::Impl).then(|| beside(handler, &attrs.inner));
    quote! {
        #(#outer_attrs)*
        #vis #signature {
            #inner
            #body
        }
        #beside
    }
}

/// The user's method, which cannot be nested: under another name, since the route takes what has no `self`.
fn beside(handler: &Handler, attrs: &[syn::Attribute]) -> Option<TokenStream> {
    handler.receiver().filter(|_| handler.has_body())?;
    let (mut sig, body) = (handler.sig.clone(), &handler.body);
    sig.ident = format_ident!("__{}", sig.ident);
    Some(quote!(#[allow(dead_code)] #(#attrs)* #sig #body))
}

/// Nothing tells the type of an `E: Executor<'e>` whose argument is gone.
fn without_the_connection(handler: &Handler, signature: &mut Signature) {
    let Some(name) = wrapped_connection(handler)
        .and_then(|(param, _)| last_name(param.ty()))
        .map(|(name, _)| format_ident!("{name}"))
    else {
        return;
    };
    let generics = &mut signature.generics;
    let params = std::mem::take(&mut generics.params);
    let is_gone =
        |param: &GenericParam| matches!(param, GenericParam::Type(ty) if ty.ident == name);
    generics.params = params.into_iter().filter(|param| !is_gone(param)).collect();
    if let Some(clause) = &mut generics.where_clause {
        let predicates = std::mem::take(&mut clause.predicates);
        let keep = |predicate: &WherePredicate| !mentions(&predicate.to_token_stream(), &name);
        clause.predicates = predicates.into_iter().filter(keep).collect();
    }
}

fn extractors(handler: &Handler) -> Vec<FnArg> {
    let extractors = acceptable(handler).into_iter();
    extractors
        .map(|param| {
            let ty = param.ty();
            parse_quote!(_: #ty)
        })
        .collect()
}

/// Whether rustc would report a parameter that is reported already.
fn is_refused_by_rustc(handler: &Handler) -> bool {
    let mut params = handler.params.iter();
    params.any(|param| match param.role {
        Role::Misused(
            Misuse::OfAConnection
            | Misuse::Parameters
            | Misuse::LeaseOfWhat
            | Misuse::TransactionOfWhat
            | Misuse::Unsized,
        ) => true,
        Role::Misused(Misuse::MutableReference) if is_a_trait(param.ty()) => true,
        Role::Misused(_) => matches!(param.pat(), Pat::Reference(_)),
        // `impl Executor`, without its lifetime
        _ if wrapped_connection(handler).is_some_and(|(it, _)| it.index == param.index) => {
            let ty = code(param.ty());
            ty.ends_with("Executor")
        }
        _ => false,
    })
}

/// `&mut dyn Connection`, or without the `dyn`: neither can be borrowed.
fn is_a_trait(ty: &Type) -> bool {
    let Type::Reference(reference) = ungrouped(ty) else {
        return false;
    };
    match ungrouped(&reference.elem) {
        Type::TraitObject(_) => true,
        ty => last_name(ty).is_some_and(|(name, _)| matches!(&*name, "Connection" | "Executor")),
    }
}

/// The arguments count as used: the options, which have a mistake, may use them.
fn inner_function(handler: &Handler, options: &Options, attrs: &[syn::Attribute]) -> TokenStream {
    let names: Vec<_> = handler
        .params
        .iter()
        .flat_map(|param| bindings(param.pat()).unwrap_or_default())
        .collect();
    let mut sig = repaired_signature(handler);
    // Of any database there is no lease.
    let databases = handler.params.iter();
    for database in databases.filter_map(|param| any_database(handler, param)) {
        let (name, runtime) = (&database.ident, runtime(options));
        let clause = sig.generics.make_where_clause();
        clause
            .predicates
            .push(parse_quote!(#name: #runtime::Backend));
    }
    let (sig, body) = (with_own_brackets(&sig), with_uses(&handler.body, &names));
    quote!(#(#attrs)* #sig #body)
}

/// A method cannot be nested, and `main` is what it is. An `async fn main` without a runtime
/// would be reported again.
fn verbatim(handler: &Handler, attrs: &[syn::Attribute]) -> TokenStream {
    let vis = &handler.vis;
    let mut sig = handler.sig.clone();
    // Without a body rustc would report the function again, outside of a trait. In ours no argument is used,
    // and nothing tells what an `impl Trait` is.
    let (unused, body) = if handler.has_body() {
        (None, handler.body.clone())
    } else {
        if mentions(&sig.output.to_token_stream(), &format_ident!("impl")) {
            sig.output = ReturnType::Default;
        }
        let unused = quote!(#[allow(unused_variables)]);
        (Some(unused), quote!({ loop {} }))
    };
    if handler.is_entry_point() && !attrs.iter().any(|attr| last_is(attr.path(), "main")) {
        sig.asyncness = None;
        return quote!(#(#attrs)* #vis #sig {});
    }
    quote!(#(#attrs)* #unused #vis #sig #body)
}
