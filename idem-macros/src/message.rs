//! Writes the function of a consumer around the user's: it takes the handle
//! and the message, and says whether the message was consumed.
//!
//! Under the same rules as [`expand`](crate::expand), and without axum.

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{FnArg, ReturnType, Type, parse_quote};

use crate::attributes::place;
use crate::check::any_database;
use crate::expand::{Mode, argument, call, database, ends, local, mode, runtime, standing_at};
use crate::handler::Handler;
use crate::inner::{inner_function, mentions};
use crate::names;
use crate::options::Options;
use crate::request::request;
use crate::signature::{outer_signature, with_own_brackets, with_owned_parameters};

/// Whether the attribute is on a consumer of messages.
pub(crate) fn is_wanted(options: &Options) -> bool {
    options.given(names::MESSAGE).is_some()
}

/// Expands a consumer whose options and signature have passed every check.
pub(crate) fn expand(handler: &Handler, options: &Options) -> TokenStream {
    let runtime = runtime(options);
    let attrs = place(&handler.attrs);
    let (outer_attrs, vis) = (&attrs.outer, &handler.vis);
    let database = database(handler, &runtime);
    let returned = returned(handler);
    let handle = local(handler, "handle");
    let mut inputs: Vec<FnArg> = vec![parse_quote!(#handle: &#runtime::Idempotency<#database>)];
    inputs.extend(handler.extractors().map(|param| -> FnArg {
        let (name, ty) = (argument(handler, param), param.ty());
        parse_quote!(#name: #ty)
    }));
    let output = consumed(&returned, &runtime);
    let signature = outer_signature(handler, inputs, output);
    let signature = with_own_brackets(&with_owned_parameters(signature, &runtime));
    let inner = inner_function(handler, options);
    let start = quote!(#runtime::MessageOptions::new);
    let options = request(handler, options, &runtime, &start);
    let request = local(handler, "request");
    let (tx, claim, call) = call(handler, &runtime);
    let tx = match mode(handler) {
        Mode::Atomic(connection) => quote!(#tx: &mut #connection),
        // A consumer under a lease has not passed the checks.
        Mode::Leased => quote!(#tx),
    };
    // All of the call stands on the returned type: its bound is not met there, and only there.
    let (first, last) = ends(&returned);
    let open = standing_at(quote!(<), first, first);
    let path = standing_at(quote!(as #runtime::Consumption>::consume), last, last);
    let consume = quote!(#open #returned #path);
    let arguments = quote!(#request, #handle, move |#tx, #claim| { #call });
    let mut arguments = Group::new(Delimiter::Parenthesis, arguments);
    arguments.set_span(last);
    let body = quote!(#inner #options #consume #arguments.await);
    let mut body = Group::new(Delimiter::Brace, body);
    // Else rustc takes the function for the macro's, and does not say that it is never used.
    body.set_span(handler.end());
    quote! {
        #(#outer_attrs)*
        #vis #signature #body
    }
}

/// `-> Consumed<Result<…>>`, on the user's tokens.
fn consumed(returned: &Type, runtime: &TokenStream) -> ReturnType {
    let (first, last) = ends(returned);
    let open = standing_at(quote!(#runtime::Consumed<), first, first);
    let close = standing_at(quote!(>), last, last);
    parse_quote!(-> #open #returned #close)
}

/// What the user's function returns.
fn returned(handler: &Handler) -> Type {
    match &handler.sig.output {
        ReturnType::Type(_, ty) => (**ty).clone(),
        // A function without a return type has not passed the checks.
        ReturnType::Default => parse_quote!(()),
    }
}

/// The signature that callers of a consumer with a mistake expect, where the
/// user's says enough: else the call would report a second error.
pub(crate) fn repaired(handler: &Handler, options: &Options) -> Option<(Vec<FnArg>, ReturnType)> {
    if !is_wanted(options) {
        return None;
    }
    let transaction = handler.transaction()?;
    if any_database(handler, transaction).is_some() {
        return None;
    }
    let ReturnType::Type(_, returned) = &handler.sig.output else {
        return None;
    };
    if mentions(&returned.to_token_stream(), &format_ident!("impl")) {
        return None;
    }
    let runtime = runtime(options);
    let database = database(handler, &runtime);
    let mut inputs: Vec<FnArg> = vec![parse_quote!(_: &#runtime::Idempotency<#database>)];
    inputs.extend(handler.extractors().map(|param| -> FnArg {
        let ty = param.ty();
        parse_quote!(_: #ty)
    }));
    Some((inputs, consumed(returned, &runtime)))
}

/// A body of any type.
pub(crate) fn no_body() -> TokenStream {
    quote::quote_spanned!(Span::mixed_site()=> loop {})
}
