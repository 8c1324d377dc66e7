//! The signature of the generated function.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{FnArg, GenericParam, Ident, ReturnType, Signature, Type, WherePredicate, parse_quote};

use crate::handler::Handler;

/// The signature that the router sees: `async`, safe, and without the
/// lifetimes and references that only the user's function has.
pub(crate) fn outer_signature(
    handler: &Handler,
    inputs: Vec<FnArg>,
    output: ReturnType,
) -> Signature {
    let mut sig = repaired_signature(handler);
    sig.inputs = inputs.into_iter().collect();
    sig.output = output;
    if sig.generics.lifetimes().next().is_none() {
        return sig;
    }
    let mut generics = sig.generics;
    let keep = |param: &GenericParam| !matches!(param, GenericParam::Lifetime(_));
    generics.params = generics.params.into_iter().filter(keep).collect();
    if let Some(clause) = &mut generics.where_clause {
        let predicates = std::mem::take(&mut clause.predicates);
        let keep = |predicate: &WherePredicate| !matches!(predicate, WherePredicate::Lifetime(_));
        clause.predicates = predicates.into_iter().filter(keep).collect();
    }
    sig.generics = generics;
    // What was borrowed for a removed lifetime is owned by the router.
    syn::parse2(with_static_lifetimes(sig.to_token_stream())).unwrap_or(sig)
}

fn with_static_lifetimes(tokens: TokenStream) -> TokenStream {
    let mut quoted = false;
    let replace = |token| match token {
        TokenTree::Ident(name) if quoted && name != "_" => {
            quoted = false;
            Ident::new("static", name.span()).into()
        }
        TokenTree::Group(group) => {
            let mut replaced = Group::new(group.delimiter(), with_static_lifetimes(group.stream()));
            replaced.set_span(group.span());
            replaced.into()
        }
        other => {
            quoted = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '\'');
            other
        }
    };
    tokens.into_iter().map(replace).collect()
}

/// Says of every type parameter what the runtime needs and the user's function may not: it runs
/// in a task of its own. rustc would ask for it at the attribute.
pub(crate) fn with_owned_parameters(mut sig: Signature, runtime: &TokenStream) -> Signature {
    let params: Vec<_> = sig
        .generics
        .type_params()
        .map(|param| param.ident.clone())
        .collect();
    for param in params {
        let clause = sig.generics.make_where_clause();
        clause
            .predicates
            .push(parse_quote!(#param: #runtime::Send + 'static));
    }
    sig
}

/// The user's signature with the qualifiers that a handler has. It differs
/// from the user's only after a mistake.
pub(crate) fn repaired_signature(handler: &Handler) -> Signature {
    let mut sig = handler.sig.clone();
    let fn_span = sig.fn_token.span;
    sig.asyncness = sig.asyncness.or(Some(syn::token::Async(fn_span)));
    sig.constness = None;
    sig.unsafety = None;
    sig.abi = None;
    if matches!(&sig.output, ReturnType::Type(_, ty) if matches!(**ty, Type::Never(_))) {
        sig.output = ReturnType::Default;
    }
    for input in &mut sig.inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.retain(|attr| !attr.path().is_ident("doc"));
        }
    }
    sig
}
