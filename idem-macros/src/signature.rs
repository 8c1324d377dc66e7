//! The signature of the generated function.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    FnArg, GenericParam, Ident, Pat, PatType, ReturnType, Signature, Type, WherePredicate,
    parse_quote,
};

use crate::check::{is_plain_value, some_trait};
use crate::handler::Handler;
use crate::role::{Role, with_lifetime};

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

/// The type of a parameter that rustc would report beside us, as it was probably meant.
fn repaired_type(param: &PatType) -> Option<Type> {
    let ty = &param.ty;
    match &*param.pat {
        Pat::TupleStruct(pat) if is_plain_value(ty) => {
            let path = &pat.path;
            Some(parse_quote!(#path<#ty>))
        }
        _ if matches!(Role::of(ty), Role::Misused(_)) => with_lifetime(ty),
        _ => None,
    }
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
/// in a task of its own. rustc would ask for it at the attribute. It is said where the user's own
/// bounds stand, since clippy has none in two places, and by a trait of ours, since it has none twice.
pub(crate) fn with_owned_parameters(mut sig: Signature, runtime: &TokenStream) -> Signature {
    let mut unbound = Vec::new();
    for param in sig.generics.type_params_mut() {
        if param.bounds.is_empty() {
            unbound.push(param.ident.clone());
        } else {
            param.bounds.push(parse_quote!(#runtime::Owned));
        }
    }
    for param in unbound {
        let clause = sig.generics.make_where_clause();
        clause
            .predicates
            .push(parse_quote!(#param: #runtime::Owned));
    }
    sig
}

/// `fn pay<>(…)`, without parameters and not the user's: rustc would suggest to make a misspelt type one, but
/// only inside of another type, as the last extractor is in the generated function and not in the
/// user's. It would say all of it twice.
pub(crate) fn with_own_brackets(sig: &Signature) -> TokenStream {
    let tokens = sig.to_token_stream();
    if !sig.generics.params.is_empty() {
        return tokens;
    }
    let mut named = TokenStream::new();
    let mut tokens = tokens.into_iter();
    for token in tokens.by_ref() {
        let is_name = matches!(&token, TokenTree::Ident(word) if *word == sig.ident);
        named.extend([token]);
        if is_name {
            named.extend(quote!(<>));
            break;
        }
    }
    named.extend(tokens);
    named
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
    if let ReturnType::Type(_, ty) = &mut sig.output
        && let Some(Ok(any)) = some_trait(ty).map(|any| syn::parse_str(&format!("impl {any}")))
    {
        **ty = any;
    }
    sig.variadic = None;
    for input in &mut sig.inputs {
        if let FnArg::Typed(typed) = input {
            if let Some(ty) = repaired_type(typed) {
                *typed.ty = ty;
            }
            typed.attrs.retain(|attr| !attr.path().is_ident("doc"));
        }
    }
    sig
}
