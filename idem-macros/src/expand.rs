//! Writes the axum handler around the user's function.
//!
//! The expansion is short and constant in size: everything that happens happens
//! in the runtime. It names nothing but `__private` of the runtime, not even
//! `::core`: a user may have a crate of that name. Locals have `mixed_site`
//! spans, so that they neither see nor hide the user's names.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{FnArg, GenericParam, Ident, Path, ReturnType, Type, parse_quote};

use crate::attributes::place;
use crate::awaiting::awaiting;
use crate::debug_handler;
use crate::handler::{Handler, Param};
use crate::inner::inner_function;
use crate::options::Options;
use crate::request::request;
use crate::role::{Role, connection, last_name, last_type_argument};
use crate::signature::{outer_signature, with_own_brackets, with_owned_parameters};

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
    let mut signature = with_owned_parameters(signature, &runtime);
    // The runtime's future is returned as it is, unless an option has to be awaited for it.
    signature.asyncness = None;
    let inner = inner_function(handler, options);
    let debug = debug_handler::checks(handler, options, &runtime);
    let split = split(handler);
    let call = local(handler, "call");
    let request = request(handler, options, &runtime, &quote!(#call.options));
    let run = run(handler, &runtime);
    let mut run = quote!(#request #run);
    if let Some(value) = awaiting(options) {
        let (first, last) = ends(value);
        let new = standing_at(quote!(#runtime::run), first, last);
        let mut block = Group::new(Delimiter::Brace, quote!(#run.await));
        block.set_span(last);
        let start = standing_at(quote!(async move), first, first);
        let mut arguments = Group::new(Delimiter::Parenthesis, quote!(#start #block));
        arguments.set_span(last);
        run = quote!(#new #arguments);
    }
    let mut body = Group::new(Delimiter::Brace, quote!(#inner #debug #split #run));
    body.set_span(handler.end());
    let signature = with_own_brackets(&signature);
    quote! {
        #(#outer_attrs)*
        #vis #signature #body
    }
}

/// The only module that the expansion names.
pub(crate) fn runtime(options: &Options) -> TokenStream {
    let default = || parse_quote!(::idem_runtime);
    let path: Path = options.runtime.clone().unwrap_or_else(default);
    let (_, last) = ends(&path);
    let private = Ident::new("__private", last);
    quote!(#path::#private)
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
                let wrapped = wrapped(ty, ty, &source, runtime);
                parse_quote!(#name: #wrapped)
            } else {
                parse_quote!(#name: #ty)
            }
        })
        .collect();
    if inputs.is_empty() {
        let call = local(handler, "call");
        let mode = mode_parameter(handler).map(Param::ty);
        let wrapped = wrapped(&mode, &quote!(()), &source, runtime);
        inputs.push(parse_quote!(#call: #wrapped));
    }
    inputs
}

/// `Idempotent<Json<Payment>, Postgres>`, on the tokens of `place`.
fn wrapped(
    place: &impl ToTokens,
    ty: &impl ToTokens,
    source: &TokenStream,
    runtime: &TokenStream,
) -> TokenStream {
    let (first, last) = ends(place);
    let open = standing_at(quote!(#runtime::Idempotent<), first, first);
    let close = standing_at(quote!(>), last, last);
    quote!(#open #ty, #source #close)
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
    let run = Ident::new("Run", end);
    parse_quote!(-> impl #runtime::#run)
}

/// Whose handle the call looks for in the state.
fn source(handler: &Handler, options: &Options, runtime: &TokenStream) -> TokenStream {
    match &options.store {
        Some(_) => quote!(()),
        None => database(handler, runtime),
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
    let (tx, claim, call) = call(handler, runtime);
    let into_response = into_response(handler, runtime);
    let run = match mode(handler) {
        Mode::Atomic(connection) => quote!(run_atomic::<#connection, _>),
        Mode::Leased => quote!(run_leased),
    };
    quote! {
        #request.#run(move |#tx, #claim| {
            #runtime::respond(#call, #into_response)
        })
    }
}

/// The call of the user's function, boxed, and what the closure around it takes.
pub(crate) fn call(handler: &Handler, runtime: &TokenStream) -> (Ident, TokenStream, TokenStream) {
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
    let here = name.span();
    let mut arguments = Group::new(Delimiter::Parenthesis, quote!(#(#arguments),*));
    arguments.set_span(here);
    let mut call = Group::new(Delimiter::Parenthesis, quote!(#name #generics #arguments));
    call.set_span(here);
    let pin = standing_at(quote!(#runtime::pin), here, here);
    (tx, claim_pattern, quote!(#pin #call))
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

/// `IntoResponse::into_response`, which stands where the user's type is, so that rustc underlines that. It does
/// not name the type: rustc would say once more what is wrong with it, and an `impl Trait` has no name.
fn into_response(handler: &Handler, runtime: &TokenStream) -> TokenStream {
    let ReturnType::Type(_, ty) = &handler.sig.output else {
        return quote!(<() as #runtime::IntoResponse>::into_response);
    };
    let (first, last) = ends(ty);
    standing_at(quote!(#runtime::IntoResponse::into_response), first, last)
}

/// The spans of the first and the last token.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let tokens = tokens.to_token_stream().into_iter();
    let mut spans = tokens.map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::mixed_site);
    (first, spans.last().unwrap_or(first))
}

/// A path of the runtime that stands on the user's tokens, from the first to the last, so that
/// what rustc has to say about it is said there, and not about a macro. A `$crate` keeps what
/// it means. The names of the crate and of its module stay where the crate's is written: when there is no
/// such crate, or it is another, rustc says so there, and once.
pub(crate) fn standing_at(path: TokenStream, first: Span, last: Span) -> TokenStream {
    let mut path: Vec<_> = path.into_iter().collect();
    let count = path.len();
    let is_private =
        |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "__private");
    let named = path.iter().position(is_private).unwrap_or_default();
    for (place, token) in path.iter_mut().enumerate() {
        if place > 0 && place <= named && matches!(token, TokenTree::Ident(_)) {
            continue;
        }
        let span = if place + 1 == count { last } else { first };
        let keeps = matches!(token, TokenTree::Ident(word) if word == "$crate");
        token.set_span(if keeps {
            span.resolved_at(token.span())
        } else {
            span
        });
    }
    path.into_iter().collect()
}

pub(crate) enum Mode {
    /// The connection's type.
    Atomic(Box<Type>),
    Leased,
}

pub(crate) fn mode(handler: &Handler) -> Mode {
    match mode_parameter(handler) {
        Some(param) if matches!(param.role, Role::Lease(_)) => Mode::Leased,
        Some(param) => Mode::Atomic(Box::new(connection(param.ty()))),
        // A handler without a mode has not passed the checks.
        None => Mode::Atomic(Box::new(parse_quote!(()))),
    }
}

/// The database in which the key is claimed, by the words of the parameter that chooses the mode.
pub(crate) fn database(handler: &Handler, runtime: &TokenStream) -> TokenStream {
    let Some(param) = mode_parameter(handler) else {
        return quote!(());
    };
    if let Role::Lease(database) = &param.role {
        return database.to_token_stream();
    }
    let connection = connection(param.ty());
    let name = last_name(&connection).and_then(|(_, path)| path.segments.last());
    let named = |database| {
        let (first, last) = ends(&name.map(|name| &name.ident));
        standing_at(quote!(#runtime::#database), first, last)
    };
    match name.map(|name| (name.ident.to_string(), last_type_argument(name))) {
        Some((_, Some(database))) => database.to_token_stream(),
        Some((name, None)) if name.starts_with("Pg") => named(quote!(Postgres)),
        Some((name, None)) if name.starts_with("Sqlite") => named(quote!(Sqlite)),
        // An alias that is called `Transaction`.
        _ => quote!(<#connection as #runtime::AtomicConnection>::Database),
    }
}

fn mode_parameter(handler: &Handler) -> Option<&Param> {
    handler.transaction().or(handler.lease())
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
