//! Token-level tests: half-written attributes, what stays of the function after
//! a mistake, and input that no compiler would hand over.

mod reference;
mod typing;

use std::str::FromStr;

use proc_macro2::TokenStream;
use proptest::prelude::*;
use quote::{ToTokens, quote};

use crate::check::{Features, check};
use crate::diag::{Mistakes, code};
use crate::handler::Handler;
use crate::idempotent_tokens;
use crate::options::Options;

const BOTH: Features = Features {
    postgres: true,
    sqlite: true,
    axum: true,
};

const NONE: Features = Features {
    postgres: false,
    sqlite: false,
    axum: true,
};

fn tokens(text: &str) -> TokenStream {
    TokenStream::from_str(text).expect("balanced tokens")
}

fn function(item: TokenStream) -> Handler {
    match Handler::parse(item) {
        Ok(handler) => handler,
        Err(other) => panic!("no function: {}", other.item),
    }
}

/// The messages without their help.
fn mistakes(options: &str, item: &str, features: Features) -> Vec<String> {
    let mistakes = Mistakes::new();
    let handler = function(tokens(item));
    let options = Options::parse(tokens(options), &mistakes);
    check(&handler, &options, features, &mistakes);
    let messages = mistakes.messages().into_iter();
    messages
        .map(|message| match message.split_once("\nhelp: ") {
            Some((what, help)) if !help.is_empty() => what.to_owned(),
            _ => panic!("no help: {message}"),
        })
        .collect()
}

const HANDLER: &str = "async fn pay(account: Account, tx: &mut PgConnection) { account. }";

#[test]
fn a_half_written_attribute_gives_one_error_about_itself() {
    for (options, what) in [
        ("", "missing `scope` and `tenant`"),
        ("sco", "unknown option `sco`"),
        ("scope", "`scope` has no value"),
        ("scope =", "`scope` has no value"),
        ("scope = , tenant = account.id", "`scope` has no value"),
        ("scope = \"a\", tenant", "`tenant` has no value"),
        (
            "scope = \"a\", tenant = account.",
            "the value of `tenant` is no expression; unexpected end of input, expected identifier or integer",
        ),
        (
            "scope = \"a\" tenant = account.id",
            "missing comma before `tenant`",
        ),
        (
            "scope = \"a\", tenant = account. ttl = \"1h\"",
            "`tenant` takes one value; this `=` starts a second one",
        ),
        (
            "scope = \"a\", tenant = account.id, ttl = 24h",
            "`ttl` takes a string",
        ),
        (
            "scope = \"a\", tenant = account.id 5",
            "unexpected `5` after the value of `tenant`",
        ),
        (
            "scope: \"a\", tenant = account.id",
            "expected `=` after `scope`, found `: \"a\"`",
        ),
        (
            "scope == \"a\", tenant = account.id",
            "expected `=` after `scope`, found `== \"a\"`",
        ),
        (
            "scope(\"a\"), tenant = account.id",
            "expected `=` after `scope`, found `(\"a\")`",
        ),
        (
            "scope = \"a\",, tenant = account.id",
            "expected an option before `,`",
        ),
        (
            "\"a\", tenant = account.id",
            "expected `option = value`, found `\"a\"`",
        ),
        ("5", "expected `option = value`, found `5`"),
    ] {
        let found = mistakes(options, HANDLER, BOTH);
        // A lone `scope` lacks its tenant as well.
        let alone = !options.contains("tenant") && found.len() == 2;
        let found = if alone { &found[..1] } else { &found[..] };
        assert_eq!(found, [what], "{options}");
    }
}

#[test]
fn the_function_stays_in_place_after_a_mistake() {
    for options in ["", "scope =", "scope = , tenant", "tenant = account."] {
        let expansion = idempotent_tokens(tokens(options), tokens(HANDLER), BOTH);
        let text = code(&expansion);
        assert!(text.contains("compile_error!"), "{text}");
        assert!(text.contains("async fn pay<>(_: Account)"), "{text}");
        let inside = "async fn pay<>(account: Account, tx: &mut PgConnection) { let _ = (&account, &tx, ); account. }";
        assert!(text.contains(inside), "{text}");
    }
}

#[test]
fn the_repaired_function_is_one_that_the_router_accepts() {
    let repaired = |item: &str| {
        let expansion = idempotent_tokens(TokenStream::new(), tokens(item), BOTH);
        let file: syn::File = syn::parse2(expansion).expect("items");
        let functions = file.items.iter().filter_map(|item| match item {
            syn::Item::Fn(function) => Some(code(&function.sig)),
            _ => None,
        });
        functions.collect::<Vec<_>>().join("\n")
    };
    for (item, signature) in [
        ("fn pay(tx: &mut PgConnection) {}", "async fn pay()"),
        (
            "unsafe extern \"C\" fn pay<'a, R: 'a>(tx: &'a mut PgConnection, repo: &R, a: A) {}",
            "async fn pay<R: 'static>(_: A)",
        ),
        (
            "async fn pay(a: Json<A>, b: Json<B>, c: C, tx: &mut PgConnection) -> Sse<X> {}",
            "async fn pay(_: C, _: Json<B>)",
        ),
    ] {
        assert_eq!(repaired(item), signature);
    }
}

#[test]
fn a_backend_that_is_off_is_named() {
    let options = "scope = \"a\", tenant = account.id";
    for (tx, what) in [
        (
            "&mut PgConnection",
            "`idem-runtime` was built without PostgreSQL",
        ),
        (
            "&mut sqlx::SqliteConnection",
            "`idem-runtime` was built without SQLite",
        ),
        (
            "&mut Transaction<'_, Postgres>",
            "`idem-runtime` was built without PostgreSQL",
        ),
        ("&Lease<Sqlite>", "`idem-runtime` was built without SQLite"),
        (
            "&mut MySqlConnection",
            "`idem-runtime` does not speak to MySQL",
        ),
    ] {
        let item = format!("async fn pay(account: Account, tx: {tx}) {{}}");
        assert_eq!(mistakes(options, &item, NONE), [what], "{tx}");
    }
}

#[test]
fn a_runtime_without_axum_is_named() {
    let features = Features {
        axum: false,
        ..BOTH
    };
    let options = "scope = \"a\", tenant = shared";
    let what = "`idem-runtime` was built without axum, which calls `pay`";
    let item = "async fn pay(tx: &mut PgConnection) {}";
    assert_eq!(mistakes(options, item, features), [what]);
    let options = "message, scope = \"a\", tenant = \"a\", key = event";
    let item = "async fn pay(tx: &mut PgConnection, event: String) -> Result<(), E> {}";
    assert!(mistakes(options, item, features).is_empty());
}

#[test]
fn what_may_be_a_constant_or_a_function_is_left_to_rustc() {
    for tenant in [
        "TENANT",
        "self::tenant",
        "tenants::of(account)",
        "tenant!(acount)",
        "Tenant::Unknown",
        "{ let acount = account.id; acount }",
        "Some(account).map(|acount| acount.id)",
        "if account.id > 0 { 1 } else { 2 }",
    ] {
        let options = format!("scope = \"a\", tenant = {tenant}");
        assert_eq!(mistakes(&options, HANDLER, BOTH), [""; 0], "{tenant}");
    }
}

#[test]
fn a_message_needs_a_key_of_its_own() {
    for (key, what) in [
        ("", "missing `key`; a message has no headers"),
        ("key = header(\"x\"),", "a message has no headers"),
    ] {
        let options = format!("message, {key} scope = \"a\", tenant = \"orders\"");
        let item = "async fn paid(event: Paid, tx: &mut PgConnection) -> Result<(), E> {}";
        assert_eq!(mistakes(&options, item, BOTH), [what], "{key}");
    }
}

fn lease_expansion() -> String {
    let item = tokens("async fn pay(account: Account, lease: &Lease<Postgres>) {}");
    let mistakes = Mistakes::new();
    let options =
        "scope = \"a\", tenant = account.id, lease = \"10s\", on_takeover = \"reconcile\"";
    let options = Options::parse(tokens(options), &mistakes);
    assert_eq!(mistakes.messages(), [""; 0]);
    let handler = function(item);
    code(crate::expand::expand(&handler, &options))
}

#[test]
fn a_lease_chooses_the_leased_engine() {
    let text = lease_expansion();
    for part in [
        "__private::Idempotent<Account, Postgres>",
        ".lease(::idem_runtime::__private::duration(10, 0))",
        ".on_takeover(::idem_runtime::__private::OnTakeover::Reconcile)",
        "run_leased(",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn every_option_is_in_the_reference() {
    let reference = include_str!("../../idem-runtime/src/idempotent.md");
    let rows: Vec<_> = reference
        .lines()
        .skip_while(|line| *line != "# Options")
        .take_while(|line| *line != "# What is stored")
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(rows, crate::names::ALL.map(|name| name.text));
}

/// Fragments that make deep ways into the parsers likely.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "scope",
        "tenant",
        "ttl",
        "key",
        "fingerprint",
        "store",
        "message",
        "crate",
        "wait",
        "lease",
        "header",
        "shared",
        "account",
        "self",
        "Self",
        "r#type",
        "=",
        "=",
        ",",
        ",",
        ".",
        "::",
        "<",
        ">",
        "&",
        "-",
        "!",
        "#",
        "|",
        "'a",
        "\"24h\"",
        "\"\"",
        "\"\\u{1F600}\"",
        "24h",
        "1.5e9",
        "true",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "async",
        "fn",
        "pub",
        "unsafe",
        "mut",
        "Json",
        "PgConnection",
        "->",
        ":",
        "impl",
        "where",
        "_",
        "..",
        "@",
    ]);
    prop::collection::vec(fragment, 0..24).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn no_options_make_the_attribute_panic(options in fragments()) {
        if let Ok(options) = TokenStream::from_str(&options) {
            let expansion = idempotent_tokens(options, tokens(HANDLER), BOTH);
            prop_assert!(code(&expansion).contains("async fn pay"));
        }
    }

    #[test]
    fn no_value_makes_the_attribute_panic(
        option in prop::sample::select(&crate::names::ALL[..]),
        text in any::<String>(),
    ) {
        let name = syn::parse_str::<TokenStream>(option.text).expect("a name");
        let options = quote!(scope = "a", tenant = shared, #name = #text);
        let expansion = idempotent_tokens(options, tokens(HANDLER), BOTH);
        prop_assert!(!expansion.is_empty());
    }

    #[test]
    fn no_item_makes_the_attribute_panic(before in fragments(), args in fragments(), after in fragments()) {
        let item = format!("{before} async fn pay({args}) {after} {{ }}");
        let options = quote!(scope = "a", tenant = account.id);
        for item in [item, args] {
            if let Ok(item) = TokenStream::from_str(&item) {
                let expansion = idempotent_tokens(options.clone(), item, BOTH);
                prop_assert!(expansion.into_token_stream().to_string().len() < 100_000);
            }
        }
    }
}
