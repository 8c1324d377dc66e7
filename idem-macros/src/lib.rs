//! The `#[idempotent]` attribute. Use it through `idem_runtime::idempotent`.

mod above;
mod attributes;
mod awaiting;
mod check;
mod debug_handler;
mod diag;
mod expand;
mod fallback;
#[cfg(test)]
mod fuzz;
#[cfg(idem_fuzzing)]
pub mod fuzz;
mod handler;
mod inner;
mod key;
mod lender;
mod message;
mod names;
mod options;
mod patterns;
mod request;
mod role;
mod scope;
mod signature;
mod sizes;
#[cfg(test)]
mod snapshots;
mod syntax;
#[cfg(test)]
mod tests;
mod units;
mod unreadable;
mod values;

// The fuzzer links this crate as a library; see `tests/fuzz/attribute`.
#[cfg(idem_fuzzing)]
extern crate proc_macro;

use proc_macro2::TokenStream;
use quote::quote;

use crate::above::Around;
use crate::check::{Features, check};
use crate::diag::Mistakes;
use crate::handler::{Handler, NotAFunction};
use crate::options::Options;
use crate::unreadable::Unreadable;

// The documentation stands at `idem_runtime::idempotent`, where its examples can run.
#[allow(missing_docs)]
#[cfg_attr(not(idem_fuzzing), proc_macro_attribute)]
pub fn idempotent(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    let mistakes = Mistakes::new();
    let attribute = proc_macro::Span::call_site();
    above::check(attribute, &item, &mistakes);
    let around = || Around::of(attribute);
    let (options, item) = (options.into(), item.into());
    expanded(options, item, Features::ENABLED, mistakes, around).into()
}

#[cfg(any(test, idem_fuzzing))]
fn idempotent_tokens(options: TokenStream, item: TokenStream, features: Features) -> TokenStream {
    expanded(options, item, features, Mistakes::new(), || Around::Unknown)
}

fn expanded(
    options: TokenStream,
    item: TokenStream,
    features: Features,
    mistakes: Mistakes,
    around: impl Fn() -> Around,
) -> TokenStream {
    let handler = match Handler::parse(item) {
        Ok(handler) => handler,
        Err(NotAFunction { item, span }) => {
            let function = Unreadable::of(item.clone());
            if let Some(function) = &function {
                if let Some(word) = function.generator() {
                    let what = format!(
                        "`{}` is a generator; a handler has one response",
                        function.name()
                    );
                    let help = format!("write `async fn {}(…)`", function.name());
                    mistakes.add(word, what, help);
                } else if !function.is_reported() {
                    let what = "`#[idempotent]` cannot read this function";
                    let help = "write `async fn create_payment(account: Account, …)`";
                    mistakes.add_at(span, what, help);
                }
            } else {
                let help = "put `#[idempotent(…)]` on a handler: `async fn create_payment(…)`";
                mistakes.add_at(span, "`#[idempotent]` is for functions", help);
            }
            let errors = mistakes.finish();
            let item = function.map_or(item, |function| function.stand_in());
            return quote!(#errors #item);
        }
    };
    let options = Options::parse(options, &mistakes);
    check(&handler, &options, features, &mistakes);
    let repaired = !mistakes.is_empty();
    let errors = mistakes.finish();
    let item = if repaired {
        fallback::expand(&handler, &options, around)
    } else if message::is_wanted(&options) {
        message::expand(&handler, &options)
    } else {
        expand::expand(&handler, &options)
    };
    quote!(#errors #item)
}
