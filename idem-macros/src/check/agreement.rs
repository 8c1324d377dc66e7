//! Whether the options are complete, and agree with each other and with the
//! signature.

use proc_macro2::Span;
use syn::{Expr, ExprLit, Ident, Lit};

use super::extractors::reads_body;
use super::placement::is_ours;
use crate::diag::{Mistakes, code};
use crate::handler::{Handler, Param};
use crate::key::Key;
use crate::names::{self, Name};
use crate::options::Options;
use crate::patterns::bindings;
use crate::scope::{Scope, scope_like};
use crate::units;
use crate::values::{Tenant, Ttl, is_constant};

pub(crate) fn check(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    check_missing(handler, options, mistakes);
    check_unquoted_scope(handler, options, mistakes);
    check_generic_scope(handler, options, mistakes);
    check_constant_tenant(handler, options, mistakes);
    check_order_of_times(options, mistakes);
    check_mode_of_options(handler, options, mistakes);
    check_optional_key(options, mistakes);
    check_message(options, mistakes);
}

/// There is no default scope: a function's path changes when code moves, and a
/// changed scope would let in-flight retries run again. There is no default
/// tenant: callers would share keys by accident.
fn check_missing(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    // What is missing may be in the other of two attributes.
    if options.garbled || handler.attrs.iter().any(is_ours) {
        return;
    }
    let scope = own_scope(handler);
    let tenant = suggested_tenant(handler);
    let missing = |name: Name| options.given(name).is_none();
    let (what, help) = match (missing(names::SCOPE), missing(names::TENANT)) {
        (true, true) => (
            "missing `scope` and `tenant`".to_owned(),
            format!("write `#[idempotent(scope = \"{scope}\", tenant = {tenant})]`"),
        ),
        (true, false) => (
            "missing `scope`; it names the operation, also after the code has moved".to_owned(),
            format!("add `scope = \"{scope}\"`"),
        ),
        (false, true) => (
            "missing `tenant`; callers that use the same key must be told apart".to_owned(),
            {
                let caller = match handler.extractors().next() {
                    Some(_) => "",
                    None => "take an extractor that knows the caller, `account: Account`, and ",
                };
                format!(
                    "{caller}add `tenant = {tenant}`, or `tenant = shared` if all callers share their keys"
                )
            },
        ),
        (false, false) => return,
    };
    // Without the mark of the expansion, which rustc would go on about.
    let span = Span::call_site().resolved_at(handler.name().span());
    mistakes.add_at(span, what, help);
}

/// The first argument that may be the caller: neither state nor body.
fn suggested_tenant(handler: &Handler) -> String {
    let is_caller = |param: &&Param| {
        let ty = code(param.ty());
        !reads_body(param.ty()) && !ty.contains("State<") && !ty.contains("HeaderMap")
    };
    let caller = handler
        .extractors()
        .filter(is_caller)
        .find_map(|param| bindings(param.pat())?.into_iter().next());
    caller.map_or_else(
        || "account.id".to_owned(),
        |caller: Ident| format!("{caller}.id"),
    )
}

/// A scope is one name: a variable would be another one for each request.
fn check_unquoted_scope(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    let Some(Scope::Unquoted(value)) = &options.scope else {
        return;
    };
    let text = code(value);
    let root = text.split('.').next().unwrap_or_default();
    let mut names = handler
        .params
        .iter()
        .flat_map(|param| bindings(param.pat()).unwrap_or_default());
    if names.any(|name| name == root) {
        let what = format!("`{text}` is another for each request; a scope is one name for all");
        let scope = own_scope(handler);
        return mistakes.add(
            value,
            what,
            format!("write the name: `scope = \"{scope}\"`"),
        );
    }
    let what = format!("`{text}` is no string");
    let help = format!("quote it: `scope = \"{}\"`", scope_like(&text));
    mistakes.add(value, what, help);
}

/// A scope that is called like the handler.
fn own_scope(handler: &Handler) -> String {
    scope_like(&handler.name().to_string().replace("r#", ""))
}

/// A scope is checked once, and by a constant that no caller chooses.
fn check_generic_scope(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    let Some(Scope::Constant(path)) = &options.scope else {
        return;
    };
    let mut params = handler.sig.generics.type_params();
    let first = path.path.segments.first();
    if first.is_some_and(|first| first.ident == "Self") {
        let what = "`Self` cannot be used in `scope`; it is checked in an item of its own";
        return mistakes.add(first, what, "write the type's name instead of `Self`");
    }
    let Some(param) = params.find(|param| first.is_some_and(|first| first.ident == param.ident))
    else {
        return;
    };
    let what = format!(
        "`{}` depends on `{}`; a scope is one name for all callers",
        code(path),
        param.ident
    );
    let help = format!("write the name: `scope = \"{}\"`", own_scope(handler));
    mistakes.add(path, what, help);
}

/// A tenant that is the same for every caller is no tenant. Messages may name
/// their topic.
fn check_constant_tenant(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    let Some(Tenant::Computed(value)) = &options.tenant else {
        return;
    };
    if options.given(names::MESSAGE).is_some() || !is_constant(value) {
        return;
    }
    let help = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if text.value() == "shared" => "write it without quotes: `tenant = shared`".to_owned(),
        _ => format!(
            "compute it from an argument, `tenant = {}`, or write `tenant = shared` on purpose",
            suggested_tenant(handler)
        ),
    };
    mistakes.add(value, "`tenant` is the same for every caller", help);
}

/// A record must outlive whoever waits for it and whoever works on it.
fn check_order_of_times(options: &Options, mistakes: &Mistakes) {
    let ttl = match options.ttl {
        Some(Ttl::Fixed(ttl)) => ttl,
        Some(Ttl::Computed(_)) => return,
        None if options.given(names::TTL).is_some() => return,
        None => units::DEFAULT_TTL,
    };
    for (name, time) in [(names::WAIT, options.wait), (names::LEASE, options.lease)] {
        if time.is_some_and(|time| time > ttl) {
            let ttl = options
                .given(names::TTL)
                .map_or_else(|| names::TTL.example.to_owned(), code);
            let what = format!("`{name}` is longer than `{ttl}`");
            let limit = ttl.trim_start_matches("ttl = ");
            let help = format!("write at most `{name} = {limit}`");
            mistakes.add(options.given(name), what, help);
        }
    }
}

/// A lease is renewed and taken over; a transaction is timed and rolled back.
fn check_mode_of_options(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    if handler.transaction().is_some() == handler.lease().is_some() {
        return;
    }
    for name in [names::LEASE, names::ON_TAKEOVER] {
        if handler.lease().is_none() && options.written(name).is_some() {
            let what = format!("`{name}` is about leases; `{}` has none", handler.name());
            let help = match options.given(names::MESSAGE) {
                Some(_) => "remove it",
                None => "remove it, or take `lease: &Lease<Postgres>` instead of the transaction",
            };
            mistakes.add(options.given(name), what, help);
        }
    }
    if handler.lease().is_some() && options.written(names::TIMEOUT).is_some() {
        let what = "`timeout` is about transactions; a lease is renewed while the handler runs";
        mistakes.add(options.given(names::TIMEOUT), what, "remove it");
    }
}

/// A key that is computed is always there.
fn check_optional_key(options: &Options, mistakes: &Mistakes) {
    if options.required == Some(false)
        && let Some(Key::Computed(key)) = &options.key
    {
        let what = format!(
            "`required = false` has no effect; `{}` is always there",
            code(key)
        );
        mistakes.add(options.given(names::REQUIRED), what, "remove it");
    }
}

/// A message has no headers, and nothing else to take a key from by default.
fn check_message(options: &Options, mistakes: &Mistakes) {
    let Some(message) = options.given(names::MESSAGE) else {
        return;
    };
    let help = "compute it from the message: `key = event.id`";
    if let Some(Key::Header(_)) = options.key {
        mistakes.add(options.given(names::KEY), "a message has no headers", help);
    } else if options.given(names::KEY).is_none() {
        mistakes.add(message, "missing `key`; a message has no headers", help);
    }
}
