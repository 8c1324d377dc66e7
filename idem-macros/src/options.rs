//! Reads the options of the attribute.
//!
//! Nothing here stops at the first mistake: what cannot be read is reported
//! and skipped up to the next comma. Whether the options agree with each other
//! and with the signature is decided in [`check`](crate::check).

use std::time::Duration;

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::diag::{Mistakes, code, list};
use crate::names::{self, Name};
use crate::values::{self, Key, Scope, Tenant, Ttl};

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
        if let Err(error) = all.parse2(tokens) {
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

    fn parse_one(&mut self, input: ParseStream, mistakes: &Mistakes) {
        let Ok(word) = Ident::parse_any(input) else {
            return self.skip_nameless(input, mistakes);
        };
        let name = self.lookup(&word, mistakes);
        let value = parse_value(&word, name, input, mistakes);
        let Some(name) = name else { return };
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

    /// Finds the option called `word`. A guess counts as the option, so that
    /// its absence is not reported as well, but its value is dropped.
    fn lookup(&mut self, word: &Ident, mistakes: &Mistakes) -> Option<Name> {
        let text = word.to_string();
        if let Some(name) = names::exact(&text) {
            return Some(name);
        }
        let help = if let Some(name) = names::guess(&text) {
            self.given.push((name, word.to_token_stream()));
            format!("did you mean `{name}`, as in `{}`?", name.example)
        } else {
            self.garbled = true;
            format!("the options are {}", list(&names::ALL, "and"))
        };
        mistakes.add(word, format!("unknown option `{word}`"), help);
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
                self.garbled |= self.given.len() == 1 && input.is_empty();
                format!(
                    "name it: `scope = {}, {}`",
                    text.token(),
                    names::TENANT.example
                )
            }
            _ => {
                self.garbled = true;
                format!("the options are {}", list(&names::ALL, "and"))
            }
        };
        let what = format!("expected `option = value`, found `{}`", code(&skipped));
        mistakes.add(skipped, what, help);
    }

    fn assign(&mut self, name: Name, value: &Expr, mistakes: &Mistakes) {
        match name {
            names::SCOPE => self.scope = values::scope(value, mistakes),
            names::TENANT => self.tenant = Some(values::tenant(value)),
            names::TTL => self.ttl = values::ttl(value, mistakes),
            names::KEY => self.key = values::key(value, mistakes),
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

enum Value {
    /// The option stands alone.
    None,
    Read(Expr),
    /// Reported.
    Unreadable,
}

/// Reads `= value` and the comma behind it.
fn parse_value(word: &Ident, name: Option<Name>, input: ParseStream, mistakes: &Mistakes) -> Value {
    let example = || match name {
        Some(name) => format!("write `{}`", name.example),
        None => format!("write `{word} = …`"),
    };
    if take_end(input) {
        return Value::None;
    }
    if !input.peek(Token![=]) || input.peek(Token![==]) {
        let wrong = skip_to_comma(input);
        take_end(input);
        if name.is_some() {
            let what = format!("expected `=` after `{word}`, found `{}`", code(&wrong));
            mistakes.add(wrong, what, example());
        }
        return Value::Unreadable;
    }
    let _: syn::Result<Token![=]> = input.parse();
    if take_end(input) {
        return Value::None;
    }
    let ahead = input.fork();
    let value = match ahead.parse::<Expr>() {
        Ok(Expr::Assign(assign)) => {
            let what = format!("`{word}` takes one value; this `=` starts a second one");
            input.advance_to(&ahead);
            mistakes.add(assign.eq_token, what, "separate options by commas");
            Value::Unreadable
        }
        Ok(value) => {
            input.advance_to(&ahead);
            Value::Read(ungrouped(value))
        }
        Err(error) => {
            skip_to_comma(input);
            if name.is_some() {
                let what = format!("the value of `{word}` is no expression; {error}");
                mistakes.add_at(error.span(), what, example());
            }
            Value::Unreadable
        }
    };
    if !take_end(input) {
        expect_comma(word, &value, input, mistakes);
    }
    value
}

/// Reports what follows a value in place of a comma. When it looks like the
/// next option, that one is read as usual.
fn expect_comma(word: &Ident, value: &Value, input: ParseStream, mistakes: &Mistakes) {
    let ahead = input.fork();
    let next = Ident::parse_any(&ahead);
    match next {
        Ok(next) if ahead.peek(Token![=]) || next == names::MESSAGE.text => {
            let what = format!("missing comma before `{next}`");
            let help = match value {
                Value::Read(value) => format!("write `{word} = {}, {next} …`", code(value)),
                Value::None | Value::Unreadable => "separate options by commas".to_owned(),
            };
            mistakes.add(next, what, help);
        }
        _ => {
            let rest = skip_to_comma(input);
            take_end(input);
            if let Value::Read(value) = value {
                let what = format!("unexpected `{}` after the value of `{word}`", code(&rest));
                mistakes.add(rest, what, format!("end it: `{word} = {}`", code(value)));
            }
        }
    }
}

/// Whether the option ends here; takes the comma.
fn take_end(input: ParseStream) -> bool {
    input.is_empty() || input.parse::<Token![,]>().is_ok()
}

fn skip_to_comma(input: ParseStream) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        let Ok(token) = input.parse::<TokenTree>() else {
            break;
        };
        skipped.extend([token]);
    }
    skipped
}

/// Removes the invisible group that `macro_rules!` puts around `$value:expr`.
fn ungrouped(expr: Expr) -> Expr {
    match expr {
        Expr::Group(group) => ungrouped(*group.expr),
        other => other,
    }
}
