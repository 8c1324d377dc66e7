//! The `#[idempotent]` attribute. Use it through `idem_runtime::idempotent`.

mod attributes;
mod check;
mod diag;
mod expand;
mod fallback;
mod handler;
mod names;
mod options;
mod patterns;
mod role;
#[cfg(test)]
mod tests;
mod units;
mod values;

use proc_macro2::TokenStream;

/// Makes an axum handler safe to retry.
#[proc_macro_attribute]
pub fn idempotent(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    idempotent_tokens(options.into(), item.into(), check::Backends::ENABLED).into()
}

fn idempotent_tokens(
    options: TokenStream,
    item: TokenStream,
    backends: check::Backends,
) -> TokenStream {
    let mistakes = diag::Mistakes::new();
    let handler = match handler::Handler::parse(item.clone()) {
        Ok(handler) => handler,
        Err(error) => {
            let help = "put `#[idempotent(…)]` on a handler: `async fn create_payment(…)`";
            mistakes.add_at(error.span(), "`#[idempotent]` is for functions", help);
            let errors = mistakes.finish();
            return quote::quote!(#errors #item);
        }
    };
    let options = options::Options::parse(options, &mistakes);
    check::check(&handler, &options, backends, &mistakes);
    let repaired = !mistakes.is_empty();
    let errors = mistakes.finish();
    let item = match repaired {
        true => fallback::expand(&handler),
        false => expand::expand(&handler, &options),
    };
    quote::quote!(#errors #item)
}
