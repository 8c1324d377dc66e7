//! Writes the axum handler around the user's function.
//!
//! The expansion is short and constant in size: everything that happens happens
//! in the runtime. It names nothing but `__private` of the runtime, not even
//! `::core`: a user may have a crate of that name. Locals have `mixed_site`
//! spans, so that they neither see nor hide the user's names.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{FnArg, GenericParam, Ident, Path, ReturnType, Type, parse_quote};

use crate::attributes::place;
use crate::debug_handler;
use crate::handler::{Handler, Param};
use crate::inner::{inner_function, mentions};
use crate::options::Options;
use crate::request::request;
use crate::role::{Role, connection};
use crate::signature::outer_signature;

/// Expands a handler whose options and signature have passed every check.
pub(crate) fn expand(handler: &Handler, options: &Options) -> TokenStream {
    let runtime = runtime(options);
    let attrs = place(&handler.attrs);
    let (outer_attrs, vis) = (&attrs.outer, &handler.vis);
    let signature = outer_signature(
        handler,
        inputs(handler, options, &runtime),
        output(handler, &runtime),
    );
    let inner = inner_function(handler, options);
    let debug = debug_handler::checks(handler, options, &runtime);
    let split = split(handler);
    let call = local(handler, "call");
    let request = request(handler, options, &runtime, &quote!(#call.options));
    let run = run(handler, &runtime);
    let mut body = Group::new(Delimiter::Brace, quote!(#inner #debug #split #request #run));
    body.set_span(handler.end());
    quote! {
        #(#outer_attrs)*
        #vis #signature #body
    }
}

/// The only module that the expansion names.
pub(crate) fn runtime(options: &Options) -> TokenStream {
    let default = || parse_quote!(::idem_runtime);
    let path: Path = options.runtime.clone().unwrap_or_else(default);
    quote!(#path::__private)
}

/// The extractors; the last one is wrapped in the call, or the call stands
/// alone.
fn inputs(handler: &Handler, options: &Options, runtime: &TokenStream) -> Vec<FnArg> {
    let source = source(handler, options, runtime);
    let last = handler.extractors().last().map(|param| param.index);
    let mut inputs: Vec<FnArg> = handler
        .extractors()
        .map(|param| {
            let (name, ty) = (argument(handler, param), param.ty());
            if Some(param.index) == last {
                parse_quote!(#name: #runtime::Call<#ty, #source>)
            } else {
                parse_quote!(#name: #ty)
            }
        })
        .collect();
    if inputs.is_empty() {
        let call = local(handler, "call");
        inputs.push(parse_quote!(#call: #runtime::Call<(), #source>));
    }
    inputs
}

/// The last token stands where the user's signature ends, as the body does. rustc
/// takes a function that ends elsewhere for the macro's, and does not say that
/// it is never used.
fn output(handler: &Handler, runtime: &TokenStream) -> ReturnType {
    let end = match handler.sig.output.to_token_stream().into_iter().last() {
        Some(TokenTree::Group(group)) => group.span_close(),
        Some(token) => token.span(),
        None => handler.sig.paren_token.span.close(),
    };
    let response = Ident::new("Response", end);
    parse_quote!(-> #runtime::#response)
}

/// Whose handle the call looks for in the state.
pub(crate) fn source(handler: &Handler, options: &Options, runtime: &TokenStream) -> TokenStream {
    match (&options.store, mode(handler)) {
        (Some(_), _) => quote!(()),
        (None, Mode::Atomic(connection)) => quote!(#connection),
        (None, Mode::Leased(database)) => quote!(#runtime::Lease<#database>),
    }
}

fn split(handler: &Handler) -> Option<TokenStream> {
    let last = argument(handler, handler.extractors().last()?);
    let call = local(handler, "call");
    Some(quote!(let (#call, #last) = #last.split();))
}

/// The one runtime call.
fn run(handler: &Handler, runtime: &TokenStream) -> TokenStream {
    let request = local(handler, "request");
    let (tx, claim, call) = call(handler);
    let output = response_type(handler);
    let run = match mode(handler) {
        Mode::Atomic(connection) => quote!(run_atomic::<#connection, _>),
        Mode::Leased(_) => quote!(run_leased),
    };
    quote! {
        #request.#run(move |#tx, #claim| {
            #runtime::respond #output (#call)
        })
        .await
    }
}

/// The call of the user's function, and what the closure around it takes.
pub(crate) fn call(handler: &Handler) -> (Ident, TokenStream, TokenStream) {
    let tx = local(handler, "tx");
    let claim = local(handler, "claim");
    let name = handler.name();
    let mut claim_pattern = quote!(_);
    let arguments: Vec<_> = handler
        .params
        .iter()
        .map(|param| match param.role {
            Role::Transaction(_) | Role::Lease(_) => tx.clone(),
            Role::Claim => {
                claim_pattern = quote!(#claim);
                claim.clone()
            }
            Role::Extractor | Role::Misused(_) => argument(handler, param),
        })
        .collect();
    let generics = turbofish(handler);
    // The call stands on the user's name: there rustc says that its future is not `Send`.
    let mut arguments = Group::new(Delimiter::Parenthesis, quote!(#(#arguments),*));
    arguments.set_span(name.span().resolved_at(Span::mixed_site()));
    let call = quote!(#name #generics #arguments);
    (tx, claim_pattern, call)
}

/// `::<R, N>`: the user's function may use parameters that no argument tells.
fn turbofish(handler: &Handler) -> Option<TokenStream> {
    let names: Vec<_> = handler
        .sig
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(ty) => Some(&ty.ident),
            GenericParam::Const(constant) => Some(&constant.ident),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    (!names.is_empty()).then(|| quote!(::<#(#names),*>))
}

/// `::<Result<…>>`, so that rustc underlines the user's own type. An
/// `impl Trait` cannot be named, and an elided lifetime needs no help.
fn response_type(handler: &Handler) -> Option<TokenStream> {
    match &handler.sig.output {
        ReturnType::Type(_, ty) if !mentions(&ty.to_token_stream(), &format_ident!("impl")) => {
            Some(quote!(::<#ty, _>))
        }
        _ => None,
    }
}

pub(crate) enum Mode {
    /// The connection's type.
    Atomic(Type),
    /// The database's type.
    Leased(Type),
}

pub(crate) fn mode(handler: &Handler) -> Mode {
    let mut params = handler.params.iter();
    let mode = params.find_map(|param| match &param.role {
        Role::Transaction(_) => Some(Mode::Atomic(connection(param.ty()))),
        Role::Lease(database) => Some(Mode::Leased((**database).clone())),
        _ => None,
    });
    // A handler without a mode has not passed the checks.
    mode.unwrap_or_else(|| Mode::Atomic(parse_quote!(())))
}

/// `arg1`, by the place in the user's list.
pub(crate) fn argument(handler: &Handler, param: &Param) -> Ident {
    local(handler, &format!("arg{}", param.index))
}

/// A name that only the expansion sees. A function is an item, which has no
/// hygiene: the user's nested function would hide a parameter of its name.
pub(crate) fn local(handler: &Handler, name: &str) -> Ident {
    let taken = *handler.name() == name;
    let name = format!("{name}{}", if taken { "_" } else { "" });
    Ident::new(&name, Span::mixed_site())
}
