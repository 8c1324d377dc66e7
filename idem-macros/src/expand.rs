//! Writes the axum handler around the user's function.
//!
//! The expansion is short and constant in size: everything that happens happens
//! in the runtime. It names nothing but `__private` of the runtime, not even
//! `::core`: a user may have a crate of that name. Locals have `mixed_site`
//! spans, so that they neither see nor hide the user's names.

use std::time::Duration;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Expr, FnArg, GenericParam, Ident, Path, ReturnType, Signature, Type, WherePredicate,
    parse_quote,
};

use crate::attributes::place;
use crate::check::expressions;
use crate::handler::{Handler, Param};
use crate::options::Options;
use crate::patterns::{bindings, by_reference};
use crate::role::{Role, connection};
use crate::values::{Key, Scope, Tenant, Ttl};

/// Expands a handler whose options and signature have passed every check.
pub(crate) fn expand(handler: &Handler, options: &Options) -> TokenStream {
    let runtime = runtime(options);
    let attrs = place(&handler.attrs);
    let (outer_attrs, vis) = (&attrs.outer, &handler.vis);
    let signature = outer_signature(
        handler,
        inputs(handler, options, &runtime),
        parse_quote!(-> #runtime::Response),
    );
    let inner = inner_function(handler, options);
    let scope_check = scope_check(options, &runtime);
    let split = split(handler);
    let request = request(handler, options, &runtime);
    let run = run(handler, &runtime);
    quote! {
        #(#outer_attrs)*
        #vis #signature {
            #inner
            #scope_check
            #split
            #request
            #run
        }
    }
}

/// The only module that the expansion names.
fn runtime(options: &Options) -> TokenStream {
    let default = || parse_quote!(::idem_runtime);
    let path: Path = options.runtime.clone().unwrap_or_else(default);
    quote!(#path::__private)
}

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

/// The user's signature with the qualifiers that a handler has. It differs
/// from the user's only after a mistake.
pub(crate) fn repaired_signature(handler: &Handler) -> Signature {
    let mut sig = handler.sig.clone();
    let fn_span = sig.fn_token.span;
    sig.asyncness = sig.asyncness.or(Some(syn::token::Async(fn_span)));
    sig.constness = None;
    sig.unsafety = None;
    sig.abi = None;
    sig
}

/// The user's function, verbatim but for the uses of arguments that only the
/// options use: without them the arguments would be reported as unused.
fn inner_function(handler: &Handler, options: &Options) -> TokenStream {
    let attrs = place(&handler.attrs).inner;
    let (sig, body) = (&handler.sig, &handler.body);
    let mut words = Vec::new();
    for (_, value) in expressions(options) {
        collect_idents(value.to_token_stream(), &mut words);
    }
    let names = handler
        .extractors()
        .flat_map(|param| bindings(param.pat()).unwrap_or_default());
    let used: Vec<_> = names.filter(|name| words.contains(name)).collect();
    let body = match used.is_empty() {
        true => body.clone(),
        false => with_uses(body, &used),
    };
    quote!(#(#attrs)* #sig #body)
}

/// Puts `let _ = (&account,);` at the beginning of a block, behind its inner
/// attributes. An `#[allow]` would not compile where the lint is forbidden.
fn with_uses(body: &TokenStream, used: &[Ident]) -> TokenStream {
    let Some(TokenTree::Group(block)) = body.clone().into_iter().next() else {
        return body.clone();
    };
    let mut rest = block.stream().into_iter().peekable();
    let mut attributes = TokenStream::new();
    while matches!(rest.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == '#') {
        let mut ahead = rest.clone().skip(1);
        let inner = matches!(ahead.next(), Some(TokenTree::Punct(punct)) if punct.as_char() == '!');
        if !inner {
            break;
        }
        attributes.extend(rest.by_ref().take(3));
    }
    let uses = quote_spanned!(Span::mixed_site()=> let _ = (#(&#used,)*););
    let rest: TokenStream = rest.collect();
    let mut group = Group::new(block.delimiter(), quote!(#attributes #uses #rest));
    group.set_span(block.span());
    TokenTree::Group(group).into()
}

fn collect_idents(tokens: TokenStream, words: &mut Vec<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => words.push(word),
            TokenTree::Group(group) => collect_idents(group.stream(), words),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// A const item: `cargo check` does not evaluate an inline `const { … }`.
fn scope_check(options: &Options, runtime: &TokenStream) -> Option<TokenStream> {
    match &options.scope {
        Some(Scope::Constant(path)) => {
            Some(quote_spanned!(Span::mixed_site()=> const _: () = #runtime::check_scope(#path);))
        }
        _ => None,
    }
}

/// The extractors; the last one is wrapped in the call, or the call stands
/// alone.
fn inputs(handler: &Handler, options: &Options, runtime: &TokenStream) -> Vec<FnArg> {
    let handle = match (&options.store, mode(handler)) {
        (Some(_), _) => quote!(()),
        (None, Mode::Atomic(connection)) => quote!(#runtime::Handle<#connection>),
        (None, Mode::Leased(database)) => quote!(#runtime::LeasedHandle<#database>),
    };
    let last = handler.extractors().last().map(|param| param.index);
    let mut inputs: Vec<FnArg> = handler
        .extractors()
        .map(|param| {
            let (name, ty) = (argument(param), param.ty());
            match Some(param.index) == last {
                true => parse_quote!(#name: #runtime::Call<#ty, #handle>),
                false => parse_quote!(#name: #ty),
            }
        })
        .collect();
    if inputs.is_empty() {
        let call = local("call");
        inputs.push(parse_quote!(#call: #runtime::Call<(), #handle>));
    }
    inputs
}

fn split(handler: &Handler) -> Option<TokenStream> {
    let last = argument(handler.extractors().last()?);
    let call = local("call");
    Some(quote!(let (#call, #last) = #last.split();))
}

/// What the options make of this request's arguments.
fn request(handler: &Handler, options: &Options, runtime: &TokenStream) -> TokenStream {
    let (call, request) = (local("call"), local("request"));
    let patterns: Vec<_> = match expressions(options).is_empty() {
        true => Vec::new(),
        false => handler.extractors().filter_map(borrowed).collect(),
    };
    let names = handler.extractors().flat_map(|param| {
        let names = by_reference(param.pat()).and_then(|pat| bindings(&pat));
        names.unwrap_or_default()
    });
    let seen: Vec<_> = names
        .filter(|name| !name.to_string().starts_with('_'))
        .collect();
    let uses = (!patterns.is_empty() && !seen.is_empty()).then(|| quote!(let _ = (#(#seen,)*);));
    let policy = policy(options, runtime);
    let mut setters = TokenStream::new();
    if let Some(store) = &options.store {
        setters.extend(match mode(handler) {
            Mode::Atomic(connection) => quote!(.store::<#connection>(&(#store))),
            Mode::Leased(database) => quote!(.leased_store::<#database>(&(#store))),
        });
    }
    setters.extend(match &options.tenant {
        Some(Tenant::Computed(tenant)) => quote!(.tenant(&(#tenant))),
        Some(Tenant::Shared(_)) | None => quote!(.shared_tenant()),
    });
    if let Some(Key::Computed(key)) = &options.key {
        setters.extend(quote!(.key(&(#key))));
    }
    if let Some(fingerprint) = &options.fingerprint {
        let fingerprint = borrowed_elements(fingerprint);
        setters.extend(quote!(.fingerprint(#fingerprint)));
    }
    if let Some(Ttl::Computed(ttl)) = &options.ttl {
        setters.extend(quote!(.ttl(#ttl)));
    }
    quote! {
        let #request = {
            #(#patterns)*
            #uses
            #call.options(const { &#policy }) #setters
        };
    }
}

/// `let Json(payment) = &arg1;`, unless the pattern binds nothing.
fn borrowed(param: &Param) -> Option<TokenStream> {
    let pat = by_reference(param.pat())?;
    if bindings(&pat).is_some_and(|names| names.is_empty()) {
        return None;
    }
    let name = argument(param);
    Some(quote!(let #pat = &#name;))
}

/// `(payment.amount, payment.currency)` becomes
/// `&(&(payment.amount), &(payment.currency))`: a literal of fields would move
/// them out of the arguments.
fn borrowed_elements(value: &Expr) -> TokenStream {
    match value {
        Expr::Tuple(tuple) => {
            let elems = tuple.elems.iter().map(borrowed_elements);
            quote!(&(#(#elems,)*))
        }
        Expr::Array(array) => {
            let elems = array.elems.iter().map(borrowed_elements);
            quote!(&[#(#elems),*])
        }
        Expr::Paren(paren) => borrowed_elements(&paren.expr),
        _ => quote!(&(#value)),
    }
}

/// The constant part: only what the attribute says, the rest is the runtime's
/// default.
fn policy(options: &Options, runtime: &TokenStream) -> TokenStream {
    let scope = &options.scope;
    let mut policy = quote!(#runtime::Policy::new(#scope));
    let duration = |duration: &Duration| duration_tokens(*duration, runtime);
    if let Some(Ttl::Fixed(ttl)) = &options.ttl {
        let ttl = duration(ttl);
        policy.extend(quote!(.ttl(#ttl)));
    }
    match &options.key {
        Some(Key::Header(name)) => policy.extend(quote!(.key_header(#name))),
        Some(Key::Computed(_)) => policy.extend(quote!(.key_from_arguments())),
        None => {}
    }
    if let Some(required) = options.required {
        policy.extend(quote!(.required(#required)));
    }
    let times = [
        ("wait", &options.wait),
        ("timeout", &options.timeout),
        ("lease", &options.lease),
    ];
    for (setter, time) in times {
        if let Some(time) = time {
            let (setter, time) = (format_ident!("{setter}"), duration(time));
            policy.extend(quote!(.#setter(#time)));
        }
    }
    let choices = [
        ("on_takeover", "OnTakeover", &options.on_takeover),
        ("record", "Record", &options.record),
    ];
    for (setter, ty, choice) in choices {
        if let Some(choice) = choice {
            let (setter, ty) = (format_ident!("{setter}"), format_ident!("{ty}"));
            let variant = variant(&choice.value());
            policy.extend(quote!(.#setter(#runtime::#ty::#variant)));
        }
    }
    if let Some(bytes) = options.max_response {
        policy.extend(quote!(.max_response(#bytes)));
    }
    policy
}

/// `"success"` is `Success`.
fn variant(choice: &str) -> Ident {
    let (first, rest) = choice.split_at(1);
    format_ident!("{}{rest}", first.to_uppercase())
}

fn duration_tokens(duration: Duration, runtime: &TokenStream) -> TokenStream {
    let (secs, nanos) = (duration.as_secs(), duration.subsec_nanos());
    match nanos {
        0 => quote!(#runtime::Duration::from_secs(#secs)),
        _ => quote!(#runtime::Duration::new(#secs, #nanos)),
    }
}

/// The one runtime call.
fn run(handler: &Handler, runtime: &TokenStream) -> TokenStream {
    let request = local("request");
    let tx = local("tx");
    let claim = local("claim");
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
            Role::Extractor | Role::Misused(_) => argument(param),
        })
        .collect();
    let generics = turbofish(handler);
    let output = response_type(handler);
    let run = match mode(handler) {
        Mode::Atomic(connection) => quote!(run_atomic::<#connection, _>),
        Mode::Leased(_) => quote!(run_leased),
    };
    quote! {
        #request.#run(move |#tx, #claim_pattern| {
            #runtime::pin(async move {
                #runtime::respond #output (#name #generics (#(#arguments),*).await)
            })
        })
        .await
    }
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
        ReturnType::Type(_, ty) if !has_impl(ty.to_token_stream()) => Some(quote!(::<#ty>)),
        _ => None,
    }
}

fn has_impl(tokens: TokenStream) -> bool {
    let mut words = Vec::new();
    collect_idents(tokens, &mut words);
    words.iter().any(|word| word == "impl")
}

enum Mode {
    /// The connection's type.
    Atomic(Type),
    /// The database's type.
    Leased(Type),
}

fn mode(handler: &Handler) -> Mode {
    let mut params = handler.params.iter();
    let mode = params.find_map(|param| match &param.role {
        Role::Transaction(_) => Some(Mode::Atomic(connection(param.ty()))),
        Role::Lease(database) => Some(Mode::Leased(database.clone())),
        _ => None,
    });
    // A handler without a mode has not passed the checks.
    mode.unwrap_or_else(|| Mode::Atomic(parse_quote!(())))
}

/// `arg1`, by the place in the user's list.
fn argument(param: &Param) -> Ident {
    Ident::new(&format!("arg{}", param.index), Span::mixed_site())
}

fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}
