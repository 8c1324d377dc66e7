//! The `#[idempotent]` attribute. Use it through `idem_runtime::idempotent`.

use proc_macro::TokenStream;

/// Makes an axum handler safe to retry.
#[proc_macro_attribute]
pub fn idempotent(_options: TokenStream, item: TokenStream) -> TokenStream {
    item
}
