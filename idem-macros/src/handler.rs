//! The annotated function, read as far as the attribute needs it.
//!
//! Only the signature is parsed. The body stays raw tokens, so that it keeps
//! its spans and so that an unfinished body does not concern the attribute.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, FnArg, Ident, Pat, PatType, Receiver, Signature, Type, Visibility};

use crate::attributes::last_is;
use crate::role::Role;

pub(crate) struct Handler {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The block, or the semicolon of a trait method.
    pub(crate) body: TokenStream,
    /// The parameters other than `self`.
    pub(crate) params: Vec<Param>,
}

pub(crate) struct Param {
    /// The place in the user's parameter list.
    pub(crate) index: usize,
    pub(crate) typed: PatType,
    pub(crate) role: Role,
}

/// Some other item, and where it shows.
pub(crate) struct NotAFunction {
    pub(crate) item: TokenStream,
    pub(crate) span: Span,
}

impl Handler {
    pub(crate) fn parse(item: TokenStream) -> Result<Self, NotAFunction> {
        let item = ungrouped(item);
        syn::parse2(item.clone()).map_err(|error| NotAFunction {
            item,
            span: error.span(),
        })
    }

    pub(crate) fn name(&self) -> &Ident {
        &self.sig.ident
    }

    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }

    /// Where the body stands, or the semicolon.
    pub(crate) fn end(&self) -> Span {
        let last = self.body.clone().into_iter().last();
        last.map_or_else(Span::call_site, |token| token.span())
    }

    pub(crate) fn has_body(&self) -> bool {
        let mut tokens = self.body.clone().into_iter();
        matches!(tokens.next(), Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace)
    }

    /// Whether this is the program's `main`. A handler may be called so in a
    /// module of its own.
    pub(crate) fn is_entry_point(&self) -> bool {
        let mut attrs = self.attrs.iter();
        let takes_nothing = self.sig.inputs.is_empty();
        self.name() == "main" && (takes_nothing || attrs.any(|attr| last_is(attr.path(), "main")))
    }

    pub(crate) fn extractors(&self) -> impl DoubleEndedIterator<Item = &Param> {
        let params = self.params.iter();
        params.filter(|param| matches!(param.role, Role::Extractor))
    }

    /// Whether `#[async_trait]` has taken the `async` away, and says by lifetimes what it was for.
    pub(crate) fn is_of_async_trait(&self) -> bool {
        let mut lifetimes = self.sig.generics.lifetimes();
        lifetimes.any(|param| param.lifetime.ident == "async_trait")
    }

    /// The transaction of atomic mode.
    pub(crate) fn transaction(&self) -> Option<&Param> {
        let mut params = self.params.iter();
        params.find(|param| matches!(param.role, Role::Transaction(_)))
    }

    /// The lease of leased mode.
    pub(crate) fn lease(&self) -> Option<&Param> {
        let mut params = self.params.iter();
        params.find(|param| matches!(param.role, Role::Lease(_)))
    }

    /// Where the item's own `Self` is used, which a nested function cannot
    /// reach. Items inside the body have a `Self` of their own.
    pub(crate) fn outer_self(&self) -> Option<Span> {
        let Signature {
            generics,
            inputs,
            output,
            ..
        } = &self.sig;
        let (clause, body) = (&generics.where_clause, &self.body);
        find_self(quote!(#generics #inputs #output #clause #body))
    }
}

impl Param {
    pub(crate) fn ty(&self) -> &Type {
        &self.typed.ty
    }

    pub(crate) fn pat(&self) -> &Pat {
        &self.typed.pat
    }
}

impl Parse for Handler {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attrs = Attribute::parse_outer(input)?;
        let vis = input.parse()?;
        let sig: Signature = input.parse()?;
        let typed = sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(typed.clone()),
            FnArg::Receiver(_) => None,
        });
        let body = ungrouped(input.parse()?);
        // Anything else is a return type gone wrong.
        let is_body = match body.clone().into_iter().next() {
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
            Some(TokenTree::Punct(sign)) => sign.as_char() == ';',
            _ => false,
        };
        if !is_body {
            return Err(syn::Error::new_spanned(&sig, "expected a body"));
        }
        let params = typed.enumerate().map(|(index, typed)| Param {
            index,
            role: Role::of(&typed.ty),
            typed,
        });
        Ok(Self {
            attrs,
            vis,
            params: params.collect(),
            sig,
            body,
        })
    }
}

/// Removes the invisible group that `macro_rules!` puts around `$item:item` or `$body:block`.
fn ungrouped(item: TokenStream) -> TokenStream {
    let mut tokens = item.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::None => {
            ungrouped(group.stream())
        }
        _ => item,
    }
}

fn find_self(tokens: TokenStream) -> Option<Span> {
    let mut in_item = false;
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == "Self" => return Some(word.span()),
            TokenTree::Ident(word) => {
                let item = ["impl", "trait", "struct", "enum", "union"];
                in_item |= item.iter().any(|keyword| word == keyword);
            }
            TokenTree::Group(group) if in_item && group.delimiter() == Delimiter::Brace => {
                in_item = false;
            }
            TokenTree::Group(group) => {
                if let Some(span) = find_self(group.stream()) {
                    return Some(span);
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    None
}
