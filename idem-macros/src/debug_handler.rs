//! Carries out `#[axum::debug_handler]` where it stands below `#[idempotent]`.
//!
//! The generated function wraps the last argument, so axum's attribute would
//! complain about a type that nobody wrote, and it would not find the state in
//! a last `State<App>`. The checks are the same, on the user's own types; the
//! rest of what it checks is checked here anyway.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token, Type, parse_quote};

use crate::attributes::last_is;
use crate::diag::{Mistakes, code, list};
use crate::expand::{database, ends, standing_at};
use crate::handler::{Handler, Param};
use crate::options::Options;
use crate::role::{last_name, last_type_argument};

/// Statements that name what is asked of the arguments, and run nothing.
pub(crate) fn checks(
    handler: &Handler,
    options: &Options,
    runtime: &TokenStream,
) -> Option<TokenStream> {
    let Below { condition, state } = below(handler)?;
    let state = state.or_else(|| router_state(handler).into_iter().next());
    let state = state.unwrap_or_else(|| parse_quote!(()));
    let types: Vec<_> = handler.extractors().map(Param::ty).collect();
    let (last, parts) = match types.split_last() {
        Some((last, parts)) => (Some(last), parts),
        None => (None, &[][..]),
    };
    let condition = condition.map(|condition| quote!(#[cfg(#condition)]));
    let parts = parts
        .iter()
        .map(|ty| named(ty, &quote!(#runtime::Extractor<#state>), "is_extractor"));
    let last = last.map(|ty| {
        named(
            ty,
            &quote!(#runtime::LastExtractor<#state, _>),
            "is_extractor",
        )
    });
    let handle = options.store.is_none().then(|| {
        let handle = handle(handler, runtime);
        named(
            &handle,
            &quote!(#runtime::HandleSource<#state>),
            "from_state",
        )
    });
    Some(quote! {
        #condition
        {
            #(#parts)*
            #last
            #handle
        }
    })
}

/// `let _ = <Account as Extractor<App>>::is_extractor;`: a bound of a function would have rustc show
/// where that is declared.
fn named(ty: &impl ToTokens, bound: &TokenStream, method: &str) -> TokenStream {
    let method = format_ident!("{method}");
    quote!(let _ = <#ty as #bound>::#method;)
}

/// `Idempotency<Postgres>`, on the tokens that name the database.
fn handle(handler: &Handler, runtime: &TokenStream) -> TokenStream {
    let database = database(handler, runtime);
    let (first, last) = ends(&database);
    let open = standing_at(quote!(#runtime::Idempotency<), first, first);
    let close = standing_at(quote!(>), last, last);
    quote!(#open #database #close)
}

/// `#[debug_handler]` says which state it checks against, or the arguments do.
pub(crate) fn check(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    let Some(Below { state: None, .. }) = below(handler) else {
        return;
    };
    let Some(attr) = handler.attrs.iter().find(|attr| is_debug_handler(attr)) else {
        return;
    };
    let states: Vec<_> = router_state(handler).iter().map(code).collect();
    let what = match &states[..] {
        _ if matches!(attr.meta, Meta::List(_)) => {
            "`#[debug_handler]` takes only the router's state".to_owned()
        }
        [] if options.given(crate::names::STORE).is_none() => {
            "`#[debug_handler]` does not know the router's state, where the handle is".to_owned()
        }
        [] | [_] => return,
        several => format!(
            "`#[debug_handler]` cannot tell which of {} is the router's state",
            list(several, "and")
        ),
    };
    let path = code(attr.path());
    let state = match &states[..] {
        [state] => state,
        _ => "App",
    };
    let help = format!("name it: `#[{path}(state = {state})]`");
    mistakes.add(attr, what, help);
}

/// The attribute below `#[idempotent]`.
struct Below {
    /// Of a `#[cfg_attr(condition, debug_handler)]`.
    condition: Option<TokenStream>,
    state: Option<Type>,
}

fn below(handler: &Handler) -> Option<Below> {
    handler.attrs.iter().find_map(|attr| {
        if is_debug_handler(attr) {
            let state = state_of(&attr.meta);
            return Some(Below {
                condition: None,
                state,
            });
        }
        if !attr.path().is_ident("cfg_attr") {
            return None;
        }
        let all = Punctuated::<Meta, Token![,]>::parse_terminated;
        let mut all = attr.parse_args_with(all).ok()?.into_iter();
        let condition = all.next()?.into_token_stream();
        let meta = all.find(|meta| last_is(meta.path(), "debug_handler"))?;
        Some(Below {
            condition: Some(condition),
            state: state_of(&meta),
        })
    })
}

fn is_debug_handler(attr: &Attribute) -> bool {
    last_is(attr.path(), "debug_handler")
}

/// The type of `state = App`.
fn state_of(meta: &Meta) -> Option<Type> {
    let Meta::List(list) = meta else { return None };
    let parse = |input: syn::parse::ParseStream<'_>| {
        let name: syn::Ident = input.parse()?;
        if name != "state" {
            return Err(syn::Error::new_spanned(name, "not the state"));
        }
        let _: Token![=] = input.parse()?;
        let state = input.parse()?;
        let _: Option<Token![,]> = input.parse()?;
        Ok(state)
    };
    list.parse_args_with(parse).ok()
}

/// The types of the `State<…>` arguments, each once.
fn router_state(handler: &Handler) -> Vec<Type> {
    let mut states: Vec<Type> = Vec::new();
    for param in handler.extractors() {
        let Some((name, path)) = last_name(param.ty()) else {
            continue;
        };
        let state = path.segments.last().and_then(last_type_argument);
        let Some(state) = state.filter(|_| name == "State") else {
            continue;
        };
        if states.iter().all(|known| code(known) != code(state)) {
            states.push(state.clone());
        }
    }
    states
}
