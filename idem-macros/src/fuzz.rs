//! What holds of the attribute whatever stands in it and below it. `scripts/fuzz` runs it under a
//! fuzzer, and the test at the end runs it briefly on what is in its corpus.

use std::str::FromStr;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{File, ItemFn};

use crate::check::Features;
use crate::idempotent_tokens;
use crate::unreadable::Unreadable;

/// The input is what stands in the attribute, and after a line feed what stands below it. The attribute does
/// not panic, and makes no function into something that is no item.
///
/// # Panics
/// Where that does not hold.
#[cfg_attr(test, allow(unreachable_pub))]
pub fn attribute(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    // rustc as well ends at its recursion limit, or at the end of its stack.
    if text.len() > 1_000 {
        return;
    }
    let (options, item) = text.split_once('\n').unwrap_or((text, HANDLER));
    let (Ok(options), Ok(item)) = (TokenStream::from_str(options), TokenStream::from_str(item))
    else {
        return;
    };
    let is_function = syn::parse2::<ItemFn>(item.clone()).is_ok();
    // Else it would silently become another one. What was once an argument, a type without a name,
    // is one only for `syn`, which gives it a name.
    let is_reported = Unreadable::of(item.clone()).is_some_and(|function| function.is_reported());
    let is_read = syn::parse2::<ItemFn>(item.clone())
        .is_ok_and(|function| function.to_token_stream().to_string() == item.to_string());
    assert!(!is_read || !is_reported, "rustc reads {item}");
    for on in [true, false] {
        let features = Features {
            postgres: on,
            sqlite: on,
            axum: on,
        };
        let expansion = idempotent_tokens(options.clone(), item.clone(), features);
        let parsed = syn::parse2::<File>(expansion.clone());
        assert!(!is_function || parsed.is_ok(), "{text} gives {expansion}");
    }
}

const HANDLER: &str =
    "async fn pay(account: Account, tx: &mut PgConnection, Json(payment): Json<Payment>) {}";

#[cfg(test)]
#[path = "../../tests/fuzz/stable.rs"]
mod stable;

#[cfg(test)]
mod tests {
    use super::stable;

    #[test]
    fn no_attribute_on_no_item_panics() {
        stable::run("attribute", super::attribute);
    }
}
