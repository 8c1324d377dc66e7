//! What the options make of one request.

use std::time::Duration;

use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{ExprPath, Ident};

use crate::check::expressions;
use crate::expand::{argument, database, ends, local, standing_at};
use crate::handler::{Handler, Param};
use crate::inner::mentions;
use crate::key::Key;
use crate::lender::Lender;
use crate::message::is_wanted;
use crate::options::Options;
use crate::patterns::{bindings, by_reference};
use crate::scope::Scope;
use crate::values::{Tenant, Ttl};

/// Writes `let request = { … };`, where `start` makes options of a policy.
pub(crate) fn request(
    handler: &Handler,
    options: &Options,
    runtime: &TokenStream,
    start: &TokenStream,
) -> TokenStream {
    let request = local(handler, "request");
    let values: Vec<_> = expressions(options)
        .iter()
        .map(|(_, value)| value.to_token_stream())
        .collect();
    let (mut patterns, mut names) = (Vec::new(), Vec::new());
    for param in handler.extractors() {
        if let Some((pattern, bound)) = borrowed(handler, param, &values) {
            patterns.push(pattern);
            names.extend(bound);
        }
    }
    let is_seen = |name: &&Ident| !name.to_string().starts_with('_');
    let seen: Vec<_> = names.iter().filter(is_seen).collect();
    let uses = (!seen.is_empty()).then(|| quote!(let _ = (#(#seen,)*);));
    let lender = Lender {
        names: &names,
        runtime,
    };
    let policy = policy(options, runtime);
    let (mut setters, mut store) = (TokenStream::new(), None);
    if let Some(value) = &options.store {
        let (name, statement) = lender.handle(value, &database(handler, runtime));
        setters.extend(quote!(.store(#name)));
        store = Some(statement);
    }
    setters.extend(match &options.tenant {
        Some(Tenant::Computed(tenant)) => {
            let tenant = lender.asked("TenantId", "tenant_id", tenant);
            quote!(.tenant(#tenant))
        }
        Some(Tenant::Shared(_)) | None => quote!(.shared_tenant()),
    });
    if let Some(Key::Computed(key)) = &options.key {
        let key = lender.asked("KeyValue", "key_value", key);
        setters.extend(quote!(.key(#key)));
    }
    if let Some(fingerprint) = &options.fingerprint {
        let written = lender.written(fingerprint, &lender.elements(fingerprint));
        setters.extend(quote!(.fingerprint(#written)));
    } else if is_wanted(options)
        && let Some(message) = handler.extractors().last()
    {
        let written = lender.message(message.ty(), &argument(handler, message));
        setters.extend(quote!(.fingerprint(#written)));
    }
    if let Some(Ttl::Computed(ttl)) = &options.ttl {
        let ttl = lender.duration(ttl);
        setters.extend(quote!(.ttl(#ttl)));
    }
    quote! {
        let #request = {
            #(#patterns)*
            #uses
            #store
            #start(#policy) #setters
        };
    }
}

/// `let Json(payment) = &arg1;`, where an expression uses one of the names, and the names.
fn borrowed(
    handler: &Handler,
    param: &Param,
    values: &[TokenStream],
) -> Option<(TokenStream, Vec<Ident>)> {
    let pat = by_reference(param.pat())?;
    // A macro hides its names.
    let names = bindings(&pat).unwrap_or_default();
    let used = |name: &Ident| values.iter().any(|value| mentions(value, name));
    if bindings(&pat).is_some() && !names.iter().any(used) {
        return None;
    }
    let name = argument(handler, param);
    Some((quote!(let #pat = &#name;), names))
}

/// The constant part. The scope of a path is checked in an item, since `cargo check` does not
/// evaluate an inline `const { … }`; an item without a name, since rustc would show it. Both read
/// the scope from a third, so that rustc has to say once what is wrong with its type.
fn policy(options: &Options, runtime: &TokenStream) -> TokenStream {
    let Some(Scope::Constant(path)) = &options.scope else {
        let scope = &options.scope;
        let policy = policy_of(&quote!(#scope), options, runtime);
        return quote!(const { &#policy });
    };
    let (first, last) = ends(path);
    let text = text(path, runtime);
    let scope = Ident::new("__SCOPE", Span::mixed_site());
    let check = standing_at(quote!(#runtime::check_scope), first, last);
    let mut argument = Group::new(Delimiter::Parenthesis, quote!(#scope));
    argument.set_span(last);
    let policy = policy_of(&quote!(#scope), options, runtime);
    quote!({
        const #scope: #runtime::Text = #text;
        const _: () = #check #argument;
        const { &#policy }
    })
}

/// `{ let scope: Text = NAME; scope }`: types are compared at the path, and not at the parameter of a
/// function that rustc would go on to show.
fn text(path: &ExprPath, runtime: &TokenStream) -> TokenStream {
    let (first, last) = ends(path);
    let ty = standing_at(quote!(#runtime::Text), first, last);
    let scope = Ident::new("scope", Span::mixed_site());
    quote!({
        let #scope: #ty = #path;
        #scope
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
    let nanos = Literal::u32_unsuffixed(duration.subsec_nanos());
    quote!(#runtime::duration(#secs, #nanos))
}
