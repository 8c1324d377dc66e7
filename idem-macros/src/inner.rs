//! The user's function inside the generated one.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::Ident;

use crate::attributes::place;
use crate::check::expressions;
use crate::handler::Handler;
use crate::options::Options;
use crate::patterns::bindings;
use crate::signature::with_own_brackets;

/// The user's function, verbatim but for the uses of arguments that only the
/// options use: without them the arguments would be reported as unused.
pub(crate) fn inner_function(handler: &Handler, options: &Options) -> TokenStream {
    let attrs = place(&handler.attrs).inner;
    let (sig, body) = (with_own_brackets(&handler.sig), &handler.body);
    let values: Vec<_> = expressions(options)
        .iter()
        .map(|(_, value)| value.to_token_stream())
        .collect();
    let names = handler
        .extractors()
        .flat_map(|param| bindings(param.pat()).unwrap_or_default());
    let used: Vec<_> = names
        .filter(|name| values.iter().any(|value| mentions(value, name)))
        .collect();
    let body = with_uses(body, &used);
    quote!(#(#attrs)* #sig #body)
}

/// Puts `let _ = (&account,);` at the beginning of a block, behind its inner
/// attributes. An `#[allow]` would not compile where the lint is forbidden.
pub(crate) fn with_uses(body: &TokenStream, names: &[Ident]) -> TokenStream {
    let block = match body.clone().into_iter().next() {
        Some(TokenTree::Group(block)) if !names.is_empty() => block,
        _ => return body.clone(),
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
    let uses = quote_spanned!(Span::mixed_site()=> let _ = (#(&#names,)*););
    let rest: TokenStream = rest.collect();
    let mut group = Group::new(block.delimiter(), quote!(#attributes #uses #rest));
    group.set_span(block.span());
    TokenTree::Group(group).into()
}

/// Whether a name occurs, also within a format string: `"{account_id}"`.
pub(crate) fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == *name,
        TokenTree::Group(group) => mentions(&group.stream(), name),
        TokenTree::Literal(literal) => literal.to_string().contains(&format!("{{{name}")),
        TokenTree::Punct(_) => false,
    })
}
