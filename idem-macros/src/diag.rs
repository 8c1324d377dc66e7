//! Collects the mistakes of one attribute and words them in one form.
//!
//! Every message reads `<what is wrong>[; <why>]`, then on its own line
//! `help: <the fix, with code to paste>`.

use std::cell::{Cell, RefCell};
use std::fmt::Display;

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;

/// All mistakes found in one use of the attribute, so that one build shows
/// them all.
///
/// In tests it panics when it is dropped unread: a forgotten
/// [`finish`](Self::finish) would swallow errors.
pub(crate) struct Mistakes {
    errors: RefCell<Vec<syn::Error>>,
    /// rustc has something to say, so that there is no need to.
    reported: Cell<bool>,
    read: Cell<bool>,
}

impl Mistakes {
    pub(crate) fn new() -> Self {
        Self {
            errors: RefCell::new(Vec::new()),
            reported: Cell::new(false),
            read: Cell::new(false),
        }
    }

    /// Adds a mistake that is underlined from the first to the last of `tokens`.
    pub(crate) fn add(&self, tokens: impl ToTokens, what: impl Display, help: impl Display) {
        let message = format!("{what}\nhelp: {help}");
        self.errors
            .borrow_mut()
            .push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds a mistake that no token stands for, such as a missing option.
    pub(crate) fn add_at(&self, span: Span, what: impl Display, help: impl Display) {
        let message = format!("{what}\nhelp: {help}");
        self.errors
            .borrow_mut()
            .push(syn::Error::new(span, message));
    }

    /// Counts a mistake that rustc has reported already.
    pub(crate) fn add_none(&self) {
        self.reported.set(true);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty() && !self.reported.get()
    }

    /// Returns one `compile_error!` for each mistake, in the order found.
    pub(crate) fn finish(self) -> TokenStream {
        self.read.set(true);
        let errors = self.errors.borrow();
        errors.iter().map(syn::Error::to_compile_error).collect()
    }

    #[cfg(test)]
    pub(crate) fn messages(self) -> Vec<String> {
        self.read.set(true);
        self.errors.take().iter().map(ToString::to_string).collect()
    }
}

impl Drop for Mistakes {
    fn drop(&mut self) {
        assert!(
            !(cfg!(test) && !self.read.get() && !std::thread::panicking()),
            "mistakes were collected and never reported"
        );
    }
}

/// Prints tokens as a person would write them: `Json<Order>`, `&mut PgConnection`.
pub(crate) fn code(tokens: impl ToTokens) -> String {
    let mut text = String::new();
    print(tokens.into_token_stream(), &mut text);
    text.trim().to_owned()
}

fn print(tokens: TokenStream, text: &mut String) {
    let mut glued = true;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => (" { ", " }"),
                    Delimiter::None => ("", ""),
                };
                if group.delimiter() == Delimiter::None && !glued {
                    text.push(' ');
                }
                text.push_str(open);
                print(group.stream(), text);
                text.push_str(close);
                glued = false;
            }
            TokenTree::Punct(punct) => {
                let sign = punct.as_char();
                let spaced = matches!(sign, '=' | '+' | '|') && punct.spacing() == Spacing::Alone;
                if spaced && !glued {
                    text.push(' ');
                }
                text.push(sign);
                let colon = sign == ':' && punct.spacing() == Spacing::Alone;
                let type_colon = colon && !text.ends_with("::");
                if spaced || type_colon || matches!(sign, ',' | ';') {
                    text.push(' ');
                }
                glued = true;
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {
                if !glued {
                    text.push(' ');
                }
                text.push_str(&token.to_string());
                glued = false;
            }
        }
    }
}

/// Joins names as prose does: `` `a`, `b`, and `c` ``.
pub(crate) fn list<T: Display>(names: &[T], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [one, two] => format!("`{one}` {conjunction} `{two}`"),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{}, {conjunction} `{last}`", first.join(", "))
        }
    }
}

/// Finds the candidate that a misspelt `word` most likely stands for.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let tolerance = match word.chars().count() {
        0..=2 => 0,
        3 => 1,
        _ => 2,
    };
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|&(distance, _)| distance <= tolerance)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the insertions, deletions, substitutions, and swaps of neighbours
/// between two words.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before = vec![0; to.len() + 1];
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, &left) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &right) in to.iter().enumerate() {
            let mut cost = (above[column] + usize::from(left != right))
                .min(above[column + 1] + 1)
                .min(current[column] + 1);
            let swapped = row > 0 && column > 0 && left == to[column - 1] && from[row - 1] == right;
            if swapped {
                cost = cost.min(before[column - 1] + 1);
            }
            current.push(cost);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn code_is_printed_as_a_person_writes_it() {
        for (tokens, text) in [
            (quote!(Json<CreatePayment>), "Json<CreatePayment>"),
            (quote!(&mut sqlx::PgConnection), "&mut sqlx::PgConnection"),
            (quote!(&mut Transaction<'_, DB>), "&mut Transaction<'_, DB>"),
            (quote!(Path<(u32, String)>), "Path<(u32, String)>"),
            (quote!(impl Fn(u8) + Send), "impl Fn(u8) + Send"),
            (quote!(account.id), "account.id"),
            (quote!(repo: std::sync::Arc<R>), "repo: std::sync::Arc<R>"),
        ] {
            assert_eq!(code(tokens), text);
        }
    }

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        let options = ["ttl", "tenant", "timeout", "on_takeover"];
        assert_eq!(nearest("tll", options), Some("ttl"));
        assert_eq!(nearest("tennant", options), Some("tenant"));
        assert_eq!(nearest("on_takover", options), Some("on_takeover"));
        assert_eq!(nearest("colour", options), None);
        assert_eq!(nearest("x", options), None);
    }

    #[test]
    fn names_are_listed_with_an_oxford_comma() {
        assert_eq!(list(&["a"], "and"), "`a`");
        assert_eq!(list(&["a", "b"], "or"), "`a` or `b`");
        assert_eq!(list(&["a", "b", "c"], "and"), "`a`, `b`, and `c`");
    }

    #[test]
    #[should_panic(expected = "never reported")]
    fn unread_mistakes_are_noticed() {
        drop(Mistakes::new());
    }
}
