//! A function that `syn` cannot read.
//!
//! rustc has read it before, and where it did not like what it read, it has said so, with a help of
//! its own. Then nothing is added, and a function stands in for the handler, so that the route does
//! not report it once more.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Ident, Visibility};

use crate::attributes::place;

/// The item as far as everything in it can be read.
pub(crate) struct Unreadable {
    attrs: Vec<Attribute>,
    vis: Visibility,
    name: Ident,
    /// The function without its attributes and its visibility.
    function: TokenStream,
    parameters: TokenStream,
    /// Between the parameters and the body.
    behind: TokenStream,
}

impl Unreadable {
    /// `None` for what is no function.
    pub(crate) fn of(item: TokenStream) -> Option<Self> {
        let parts = |input: ParseStream| {
            Ok((
                Attribute::parse_outer(input)?,
                input.parse()?,
                input.parse()?,
            ))
        };
        let (attrs, vis, function): (_, _, TokenStream) = parts.parse2(item).ok()?;
        let is_body = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let mut tokens = function.clone().into_iter();
        let mut head = tokens.by_ref().take_while(|token| !is_body(token));
        head.find(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))?;
        let Some(TokenTree::Ident(name)) = head.next() else {
            return None;
        };
        let parameters = head.find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
                Some(group.stream())
            }
            _ => None,
        })?;
        let behind = head.collect();
        Some(Self {
            attrs,
            vis,
            name,
            function,
            parameters,
            behind,
        })
    }

    pub(crate) fn name(&self) -> &Ident {
        &self.name
    }

    /// The `gen` of a `gen fn`. rustc reports it too, as a feature that is not stable, where that is not turned on.
    pub(crate) fn generator(&self) -> Option<TokenTree> {
        let is_word =
            |token: &TokenTree, word| matches!(token, TokenTree::Ident(ident) if ident == word);
        let head = self.function.clone().into_iter();
        let mut head = head.take_while(|token| !is_word(token, "fn"));
        head.find(|token| is_word(token, "gen"))
    }

    /// Whether rustc has reported it. Only what no version of Rust accepts counts: nothing else would
    /// stop the build.
    pub(crate) fn is_reported(&self) -> bool {
        let mut parameters = split(&self.parameters);
        let last = parameters.pop().unwrap_or_default();
        let behind = Vec::from_iter(self.behind.clone());
        let output =
            matches!(&behind[..], [TokenTree::Punct(sign), ..] if ":=".contains(sign.as_char()));
        output
            || parameters.iter().any(Vec::is_empty)
            || parameters.iter().any(|parameter| is_refused(parameter))
            || (!last.is_empty() && is_refused(&last))
    }

    /// A handler that takes nothing, with the user's function in it where rustc has something to say about
    /// that.
    pub(crate) fn stand_in(&self) -> TokenStream {
        let attrs = place(&self.attrs).outer;
        let Self { vis, name, .. } = self;
        // A nested function has no `self`, which rustc would report instead.
        let nests = self.is_reported() && !mentions_self(&self.function);
        let inner = nests.then(|| {
            let function = &self.function;
            quote!(#[allow(dead_code, unused_mut)] #function)
        });
        quote!(#(#attrs)* #vis async fn #name() { #inner })
    }
}

/// Parts a list at its commas, but not at those between `<` and `>`.
fn split(list: &TokenStream) -> Vec<Vec<TokenTree>> {
    let (mut parts, mut depth, mut before) = (vec![Vec::new()], 0_usize, ' ');
    for token in list.clone() {
        let sign = match &token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        match sign {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = sign;
        if sign == ',' && depth == 0 {
            parts.push(Vec::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(token);
        }
    }
    parts
}

/// Whether a parameter is none in any version of Rust.
fn is_refused(parameter: &[TokenTree]) -> bool {
    let is_word =
        |token: &TokenTree, word| matches!(token, TokenTree::Ident(ident) if ident == word);
    let is_sign = |token: &TokenTree, sign| matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign);
    let mut parameter = parameter;
    while let [hash, TokenTree::Group(_), rest @ ..] = parameter
        && is_sign(hash, '#')
    {
        parameter = rest;
    }
    let is_variadic = matches!(parameter, [.., first, second, third] if [first, second, third].into_iter().all(|dot| is_sign(dot, '.')));
    if is_variadic || parameter.iter().any(|token| is_word(token, "self")) {
        return false;
    }
    let binds = match parameter {
        [word, ..] if is_word(word, "let") => true,
        [word, TokenTree::Ident(_), TokenTree::Group(_), ..] => is_word(word, "mut"),
        _ => false,
    };
    let colons: Vec<_> = (0..parameter.len())
        .filter(|&at| is_colon(parameter, at))
        .collect();
    let [colon] = colons[..] else { return true };
    let ty = &parameter[colon + 1..];
    let is_type = match ty {
        [] => false,
        [first, .., last] => !is_word(first, "mut") && !is_word(last, "mut") && !is_sign(last, '&'),
        [only] => !is_word(only, "mut") && !is_sign(only, '&'),
    };
    let has_default = parts(ty)
        .iter()
        .any(|token| is_sign(token, '=') || is_sign(token, ';'));
    binds || !is_type || has_default || has_parentheses(ty)
}

/// `:`, and neither half of `::`.
fn is_colon(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| match token {
        Some(TokenTree::Punct(punct)) if punct.as_char() == ':' => Some(punct.spacing()),
        _ => None,
    };
    let before = at.checked_sub(1).and_then(|at| colon(tokens.get(at)));
    let depth = parts(&tokens[..at]).len();
    let outside = depth == parts(&tokens[..=at]).len().saturating_sub(1);
    outside && colon(tokens.get(at)) == Some(Spacing::Alone) && before != Some(Spacing::Joint)
}

/// The tokens that are not between `<` and `>`.
fn parts(tokens: &[TokenTree]) -> Vec<&TokenTree> {
    let (mut outside, mut depth, mut before) = (Vec::new(), 0_usize, ' ');
    for token in tokens {
        let sign = match token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        match sign {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => outside.push(token),
            _ => {}
        }
        before = sign;
    }
    outside
}

/// `Json(Payment)` in the place of `Json<Payment>`, which only a trait may have.
fn has_parentheses(ty: &[TokenTree]) -> bool {
    let of_a_trait = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "dyn" || word == "impl");
    if ty.iter().any(of_a_trait) {
        return false;
    }
    let is_list = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
    ty.windows(2).any(|pair| match &pair[0] {
        TokenTree::Ident(name) => {
            is_list(&pair[1]) && name.to_string().starts_with(char::is_uppercase)
        }
        _ => false,
    })
}

fn mentions_self(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "self" || word == "Self",
        TokenTree::Group(group) => mentions_self(&group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use crate::handler::Handler;

    fn is_reported(parameters: &str, output: &str) -> bool {
        let item = format!("#[x] pub async fn pay<T: A>({parameters}) {output} {{}}");
        let item = TokenStream::from_str(&item).expect("tokens");
        let function = Unreadable::of(item.clone()).expect("a function");
        let reported = function.is_reported();
        assert!(!(reported && Handler::parse(item).is_ok()), "{parameters}");
        reported
    }

    #[test]
    fn what_rustc_has_refused_is_left_to_it() {
        for parameters in [
            "a: A, tx",
            "a: A, &mut PgConnection",
            "a: A, tx &mut PgConnection",
            "a: A, tx:",
            "a: A, tx: &mut",
            "tx: mut PgConnection",
            "a: A,, b: B",
            "a: A b: B",
            "a: A; b: B",
            "a: A = A::new()",
            "let a: A",
            "mut Json(a): Json<A>",
            "a: Json(A)",
            "a: A<B, C>, #[x] b",
        ] {
            assert!(is_reported(parameters, ""), "{parameters}");
        }
        for output in [": StatusCode", "=> StatusCode"] {
            assert!(is_reported("a: A", output), "{output}");
        }
    }

    #[test]
    fn what_rustc_may_accept_is_not() {
        for parameters in [
            "",
            "a: A,",
            "&self, a: A",
            "self: Arc<Self>",
            "mut a: A, Json(mut b): Json<B>, (c, d): (C, D)",
            "Page { from: to, .. }: Page, a @ [b, ..]: [u8; 2]",
            "_: impl Fn(A) -> B, f: fn(A) -> Box<dyn Named(B)>",
            "#[cfg(x)] a: ::a::A<B<C>, { 1 > 2 }>, b: impl Iterator<Item = (A, B)>",
            "a: <A as B<C>>::D, b: &'a mut dyn Fn(&A), c: !",
            "a: A, _: ...",
            "a: A, ...",
        ] {
            assert!(
                !is_reported(parameters, "-> A<B> where T: B"),
                "{parameters}"
            );
        }
    }
}
