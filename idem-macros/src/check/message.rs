//! Whether a function for messages is one, in the place of the rules for
//! extractors.

use quote::ToTokens;
use syn::{Ident, ReturnType};

use crate::diag::{Mistakes, code};
use crate::handler::{Handler, Param};
use crate::inner::mentions;
use crate::key::Key;
use crate::names;
use crate::options::Options;
use crate::patterns::bindings;
use crate::role::{Misuse, Role, last_name, last_type_argument};

pub(crate) fn check(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    check_argument(handler, mistakes);
    check_transaction(handler, mistakes);
    check_return_type(handler, mistakes);
    check_options(handler, options, mistakes);
}

/// The last owned argument is the message, as the last extractor is the body.
fn check_argument(handler: &Handler, mistakes: &Mistakes) {
    let borrowed =
        |param: &&Param| matches!(param.role, Role::Misused(Misuse::Reference | Misuse::Text));
    if handler.params.iter().any(|param| borrowed(&param)) {
        return;
    }
    if let Some(message) = handler.extractors().last()
        && let Some((name, path)) = last_name(message.ty())
        && matches!(&*name, "Json" | "Form")
        && let Some(inside) = path.segments.last().and_then(last_type_argument)
    {
        let pat = bindings(message.pat()).and_then(|names| names.into_iter().next());
        let pat = pat.map_or_else(|| "event".to_owned(), |pat| pat.to_string());
        let what = format!(
            "`{}` reads a request; a message comes as it is",
            code(message.ty())
        );
        let help = format!("write `{pat}: {}`", code(inside));
        mistakes.add(&message.typed, what, help);
    }
    if handler.extractors().next().is_none() {
        let name = handler.name();
        let what = format!("`{name}` takes no message");
        let help = "add the parameter `event: OrderPaid`, of your message's type";
        mistakes.add(name, what, help);
    }
}

/// A broker redelivers until the effect is committed; there is nothing for a
/// lease to resume that a transaction does not keep.
fn check_transaction(handler: &Handler, mistakes: &Mistakes) {
    if let (Some(lease), None) = (handler.lease(), handler.transaction()) {
        let what = "a message is consumed in a transaction, not under a lease";
        let help = "take `tx: &mut PgConnection` instead, and write through it";
        mistakes.add(&lease.typed, what, help);
    }
}

/// What is not acknowledged must show as an error.
fn check_return_type(handler: &Handler, mistakes: &Mistakes) {
    let name = handler.name();
    match &handler.sig.output {
        ReturnType::Default => {
            let what =
                format!("`{name}` returns nothing; a failure must show, or it is acknowledged");
            mistakes.add(
                name,
                what,
                "return a `Result`, such as `Result<(), sqlx::Error>`",
            );
        }
        ReturnType::Type(_, ty) if mentions(&ty.to_token_stream(), &impl_word()) => {
            let what = format!(
                "`{}` cannot be named; what is kept of a message is a type",
                code(ty)
            );
            mistakes.add(
                ty,
                what,
                "write the type, such as `Result<(), sqlx::Error>`",
            );
        }
        ReturnType::Type(..) => {}
    }
}

fn impl_word() -> Ident {
    quote::format_ident!("impl")
}

/// Options about what a message does not have.
fn check_options(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    for name in [names::RECORD, names::MAX_RESPONSE] {
        if let Some(given) = options.written(name) {
            let what = format!("`{name}` is about responses; a message has none");
            mistakes.add(given, what, "remove it");
        }
    }
    // With `false` it is reported for every key that is computed.
    let reported = options.required == Some(false) && matches!(options.key, Some(Key::Computed(_)));
    if let Some(given) = options.written(names::REQUIRED)
        && !reported
    {
        let what = "`required` is about headers; a message's key is always there";
        mistakes.add(given, what, "remove it");
    }
    if let Some(given) = options.written(names::STORE) {
        let what = "`store` is about routers; a consumer passes the handle itself";
        let help = format!("remove it, and call `{}(&idempotency, …)`", handler.name());
        mistakes.add(given, what, help);
    }
}
