//! What the options make of one request.

use std::time::Duration;

use proc_macro2::{Delimiter, Group, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident};

use crate::check::expressions;
use crate::expand::{Mode, argument, local, mode};
use crate::handler::{Handler, Param};
use crate::inner::mentions;
use crate::message::is_wanted;
use crate::options::Options;
use crate::patterns::{bindings, by_reference};
use crate::values::{Key, Scope, Tenant, Ttl};

/// Writes `let request = { … };`, where `start` makes options of a policy.
pub(crate) fn request(
    handler: &Handler,
    options: &Options,
    runtime: &TokenStream,
    start: &TokenStream,
) -> TokenStream {
    let request = local(handler, "request");
    let patterns: Vec<_> = if expressions(options).is_empty() {
        Vec::new()
    } else {
        handler
            .extractors()
            .filter_map(|param| borrowed(handler, param))
            .collect()
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
        let store = lent(store);
        setters.extend(match mode(handler) {
            Mode::Atomic(connection) => quote!(.store::<#connection>(#store)),
            Mode::Leased(database) => quote!(.leased_store::<#database>(#store)),
        });
    }
    setters.extend(match &options.tenant {
        Some(Tenant::Computed(tenant)) => {
            let tenant = lent(tenant);
            quote!(.tenant(#tenant))
        }
        Some(Tenant::Shared(_)) | None => quote!(.shared_tenant()),
    });
    if let Some(Key::Computed(key)) = &options.key {
        let key = lent(key);
        setters.extend(quote!(.key(#key)));
    }
    if let Some(fingerprint) = &options.fingerprint {
        let fingerprint = lent_elements(fingerprint);
        setters.extend(quote!(.fingerprint(#fingerprint)));
    } else if is_wanted(options)
        && let Some(message) = handler.extractors().last()
    {
        let name = argument(handler, message);
        let message = quote_spanned!(message.ty().span()=> &#name);
        setters.extend(quote!(.fingerprint(#message)));
    }
    if let Some(Ttl::Computed(ttl)) = &options.ttl {
        setters.extend(quote!(.ttl(#ttl)));
    }
    quote! {
        let #request = {
            #(#patterns)*
            #uses
            #start(#policy) #setters
        };
    }
}

/// `let Json(payment) = &arg1;`, unless the pattern binds nothing.
fn borrowed(handler: &Handler, param: &Param) -> Option<TokenStream> {
    let pat = by_reference(param.pat())?;
    if bindings(&pat).is_some_and(|names| names.is_empty()) {
        return None;
    }
    let name = argument(handler, param);
    Some(quote!(let #pat = &#name;))
}

/// `(payment.amount, payment.currency)` becomes
/// `&(&(payment.amount), &(payment.currency))`: a literal of fields would move
/// them out of the arguments.
fn lent_elements(value: &Expr) -> TokenStream {
    let elems = match value {
        Expr::Tuple(tuple) => &tuple.elems,
        Expr::Array(array) => &array.elems,
        Expr::Paren(paren) => return lent_elements(&paren.expr),
        _ => return lent(value),
    };
    let elems = elems.iter().map(lent_elements);
    match value {
        Expr::Array(_) => borrowed_at(value, Delimiter::Bracket, quote!(#(#elems),*)),
        _ => borrowed_at(value, Delimiter::Parenthesis, quote!(#(#elems,)*)),
    }
}

/// `&(account.id)`.
fn lent(value: &Expr) -> TokenStream {
    borrowed_at(value, Delimiter::Parenthesis, value.to_token_stream())
}

/// Borrows `inside`, and lets rustc underline all of `value` when the type is
/// wrong: a span joins the first token with the last.
fn borrowed_at(value: &Expr, delimiter: Delimiter, inside: TokenStream) -> TokenStream {
    let tokens = value.to_token_stream().into_iter();
    let mut spans = tokens.map(|token| token.span());
    let here = Span::mixed_site();
    let first = spans.next().unwrap_or(here);
    let last = spans.last().unwrap_or(first);
    let mut and = Punct::new('&', Spacing::Alone);
    and.set_span(first.resolved_at(here));
    let mut group = Group::new(delimiter, inside);
    group.set_span(last.resolved_at(here));
    TokenStream::from_iter([TokenTree::from(and), TokenTree::from(group)])
}

/// The constant part. The scope of a path is checked in a const item, since
/// `cargo check` does not evaluate an inline `const { … }`.
fn policy(options: &Options, runtime: &TokenStream) -> TokenStream {
    let Some(Scope::Constant(path)) = &options.scope else {
        let scope = &options.scope;
        let policy = policy_of(&quote!(#scope), options, runtime);
        return quote!(const { &#policy });
    };
    let span = path.span().resolved_at(Span::mixed_site());
    let check = quote!(#runtime::check_scope).into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    let check: TokenStream = check.collect();
    let scope = quote_spanned!(span=> #check (#path));
    let policy = policy_of(&scope, options, runtime);
    // An item has no hygiene, and must not be what the path means.
    let taken = mentions(&path.to_token_stream(), &format_ident!("POLICY"));
    let name = format_ident!("POLICY{}", if taken { "_" } else { "" });
    quote!({
        const #name: #runtime::Policy = #policy;
        &#name
    })
}

/// Only what the attribute says; the rest is the runtime's default.
fn policy_of(scope: &TokenStream, options: &Options, runtime: &TokenStream) -> TokenStream {
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
        let bytes = Literal::usize_unsuffixed(bytes);
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
    let secs = Literal::u64_unsuffixed(duration.as_secs());
    let nanos = duration.subsec_nanos();
    if nanos == 0 {
        quote!(#runtime::Duration::from_secs(#secs))
    } else {
        quote!(#runtime::Duration::new(#secs, #nanos))
    }
}
