//! Reads the options of the attribute.
//!
//! Nothing here stops at the first mistake: what cannot be read is reported
//! and skipped up to the next comma. Whether the options agree with each other
//! and with the signature is decided in [`check`](crate::check).

use std::time::Duration;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::diag::{Mistakes, code, list};
use crate::key::{self, Key};
use crate::names::{self, Name};
use crate::scope::{self, Scope};
use crate::syntax::{Value, parse_value, skip_to_comma, take_end, without_groups};
use crate::values::{self, Tenant, Ttl};

/// The options as written. A value that could not be read is absent here and
/// present in [`given`](Self::given), so that it is not reported as missing too.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) scope: Option<Scope>,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) ttl: Option<Ttl>,
    pub(crate) key: Option<Key>,
    pub(crate) required: Option<bool>,
    pub(crate) fingerprint: Option<Expr>,
    pub(crate) wait: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) on_takeover: Option<LitStr>,
    pub(crate) record: Option<LitStr>,
    pub(crate) max_response: Option<usize>,
    pub(crate) store: Option<Expr>,
    pub(crate) runtime: Option<Path>,
    given: Vec<(Name, TokenStream)>,
    /// What an unknown word was taken for.
    guessed: Vec<Name>,
    /// Something was written that might have been any option.
    pub(crate) garbled: bool,
}

impl Options {
    /// Reads all options of `tokens`, the inside of `#[idempotent(…)]`.
    pub(crate) fn parse(tokens: TokenStream, mistakes: &Mistakes) -> Self {
        let mut options = Self::default();
        let all = |input: ParseStream| {
            while !input.is_empty() {
                options.parse_one(input, mistakes);
            }
            Ok(())
        };
        if let Err(error) = all.parse2(without_groups(tokens)) {
            mistakes.add_at(error.span(), error, "write `name = value, …`");
        }
        options
    }

    /// Returns the tokens of an option (`ttl = "24h"`) when it was written.
    pub(crate) fn given(&self, name: Name) -> Option<&TokenStream> {
        let mut given = self.given.iter();
        given
            .find(|(given, _)| *given == name)
            .map(|(_, tokens)| tokens)
    }

    /// The same, but not what an unknown word was taken for: that it is unknown is enough.
    pub(crate) fn written(&self, name: Name) -> Option<&TokenStream> {
        self.given(name).filter(|_| !self.guessed.contains(&name))
    }

    fn parse_one(&mut self, input: ParseStream, mistakes: &Mistakes) {
        if self.parse_list(input, mistakes) {
            return;
        }
        let Ok(word) = Ident::parse_any(input) else {
            return self.skip_nameless(input, mistakes);
        };
        let written = with_hyphens(&word, input);
        let name = self.lookup(&written, input, mistakes);
        let value = parse_value(&word, name, input, mistakes);
        let Some(name) = name else {
            // `Options { … }` holds whatever else seems to be missing.
            self.garbled |= matches!(value, Value::Unreadable);
            return;
        };
        let tokens = match &value {
            Value::Read(expr) => quote!(#word = #expr),
            Value::None | Value::Unreadable => quote!(#word),
        };
        if let Some(first) = self.given(name) {
            let (first, what) = (code(first), format!("duplicate option `{name}`"));
            let what = if code(&tokens) == first {
                what
            } else {
                format!("{what}; it is already set by `{first}`")
            };
            return mistakes.add(tokens, what, "remove one of the two");
        }
        self.given.push((name, tokens));
        match value {
            Value::Read(expr) => self.assign(name, &expr, mistakes),
            Value::None if name != names::MESSAGE => mistakes.add(
                &word,
                format!("`{name}` has no value"),
                format!("write `{}`", name.example),
            ),
            Value::None | Value::Unreadable => {}
        }
    }

    /// Reports `fingerprint = payment.amount, payment.currency`, whose parentheses are forgotten.
    fn parse_list(&mut self, input: ParseStream, mistakes: &Mistakes) -> bool {
        let (Some(fingerprint), Some((names::FINGERPRINT, first))) =
            (&self.fingerprint, self.given.last())
        else {
            return false;
        };
        let mut values = vec![code(fingerprint)];
        let mut list = TokenStream::new();
        loop {
            // A word alone may become an option.
            let ahead = input.fork();
            let Ok(value @ (Expr::Field(_) | Expr::MethodCall(_))) = ahead.parse() else {
                break;
            };
            if !ahead.is_empty() && !ahead.peek(Token![,]) {
                break;
            }
            input.advance_to(&ahead);
            take_end(input);
            values.push(code(&value));
            list.extend(quote!(#value,));
        }
        if list.is_empty() {
            return false;
        }
        let what = format!("`{}` has several values", code(first));
        let help = format!(
            "put them in parentheses: `fingerprint = ({})`",
            values.join(", ")
        );
        mistakes.add(without_last(list), what, help);
        true
    }

    /// Finds the option called `word`. A guess counts as the option, so that
    /// its absence is not reported as well, but its value is dropped.
    fn lookup(
        &mut self,
        word: &TokenStream,
        input: ParseStream,
        mistakes: &Mistakes,
    ) -> Option<Name> {
        let text = word.to_string().replace(' ', "");
        if let Some(name) = names::exact(&text) {
            return Some(name);
        }
        // `Options { … }` is no option that is misspelt.
        let guess = names::guess(&text).filter(|_| !input.peek(syn::token::Brace));
        let help = if let Some(name) = guess {
            if let Some(first) = self.given(name) {
                format!("remove it; `{name}` is already set by `{}`", code(first))
            } else {
                self.given.push((name, word.clone()));
                self.guessed.push(name);
                format!("did you mean `{name}`, as in `{}`?", name.example)
            }
        } else {
            self.garbled = true;
            format!("the options are {}", list(&names::ALL, "and"))
        };
        mistakes.add(word, format!("unknown option `{text}`"), help);
        None
    }

    /// Reports what does not begin with a name: a bare value or a stray sign.
    fn skip_nameless(&mut self, input: ParseStream, mistakes: &Mistakes) {
        if let Ok(comma) = input.parse::<Token![,]>() {
            let what = "expected an option before `,`";
            return mistakes.add(comma, what, "remove the comma");
        }
        let skipped = skip_to_comma(input);
        take_end(input);
        let help = match syn::parse2::<LitStr>(skipped.clone()) {
            Ok(text) if self.given(names::SCOPE).is_none() => {
                self.given.push((names::SCOPE, skipped.clone()));
                let alone = self.given.len() == 1 && input.is_empty();
                self.garbled |= alone;
                let named = format!("scope = {}, {}", text.token(), names::TENANT.example);
                if alone {
                    format!("write `#[idempotent({named})]`")
                } else {
                    format!("name it: `{named}`")
                }
            }
            _ => {
                self.garbled = true;
                match &Vec::from_iter(skipped.clone())[..] {
                    [TokenTree::Group(group)] if !group.stream().is_empty() => {
                        format!("write `#[idempotent{}]`", code(parenthesized(group)))
                    }
                    _ => format!("the options are {}", list(&names::ALL, "and")),
                }
            }
        };
        let what = format!("expected `option = value`, found `{}`", code(&skipped));
        mistakes.add(skipped, what, help);
    }

    fn assign(&mut self, name: Name, value: &Expr, mistakes: &Mistakes) {
        match name {
            names::SCOPE => self.scope = scope::scope(value, mistakes),
            names::TENANT => self.tenant = values::tenant(value, mistakes),
            names::TTL => self.ttl = values::ttl(value, mistakes),
            names::KEY => self.key = key::key(value, mistakes),
            names::REQUIRED => self.required = values::flag(value, name, mistakes),
            names::FINGERPRINT => self.fingerprint = values::computed(value, name, mistakes),
            names::WAIT => self.wait = values::wait(value, mistakes),
            names::TIMEOUT => self.timeout = values::timeout(value, mistakes),
            names::LEASE => self.lease = values::lease(value, mistakes),
            names::ON_TAKEOVER => {
                self.on_takeover = values::choice(value, name, &["resume", "reconcile"], mistakes);
            }
            names::RECORD => {
                let choices = ["success", "deterministic", "all"];
                self.record = values::choice(value, name, &choices, mistakes);
            }
            names::MAX_RESPONSE => self.max_response = values::max_response(value, mistakes),
            names::STORE => self.store = values::computed(value, name, mistakes),
            names::CRATE => self.runtime = values::runtime(value, mistakes),
            _ => {
                let what = format!("`{name}` is a flag; it takes no value");
                mistakes.add(value, what, format!("write `{name}` alone"));
            }
        }
    }
}

/// The word, and what belongs to it in `on-takeover`.
fn with_hyphens(word: &Ident, input: ParseStream) -> TokenStream {
    let mut written = word.to_token_stream();
    while input.peek(Token![-]) && input.peek2(Ident::peek_any) {
        let ahead = input.fork();
        if let (Ok(hyphen), Ok(word)) = (ahead.parse::<Token![-]>(), Ident::parse_any(&ahead)) {
            input.advance_to(&ahead);
            written.extend(quote!(#hyphen #word));
        }
    }
    written
}

fn without_last(tokens: TokenStream) -> TokenStream {
    let mut tokens: Vec<_> = tokens.into_iter().collect();
    tokens.pop();
    tokens.into_iter().collect()
}

/// The group with the attribute's own parentheses.
fn parenthesized(group: &Group) -> TokenTree {
    Group::new(Delimiter::Parenthesis, group.stream()).into()
}
