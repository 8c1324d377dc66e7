//! What the attribute writes, as files that people read and that `idem-tests`
//! compiles. `IDEM_BLESS=1 cargo test -p idem-macros` rewrites them.

use std::path::Path;
use std::{env, fs};

use quote::ToTokens;
use syn::{Attribute, File, Item, Meta};

use crate::check::Features;
use crate::idempotent_tokens;

const BOTH: Features = Features {
    postgres: true,
    sqlite: true,
    axum: true,
};

/// Expands the one annotated function of a file.
fn expanded(source: &str) -> String {
    let mut file: File = syn::parse_str(source).expect("a file");
    let is_import = |item: &Item| matches!(item, Item::Use(import) if import.to_token_stream().to_string().ends_with("idempotent ;"));
    file.items.retain(|item| !is_import(item));
    let Some(Item::Fn(mut handler)) = file.items.pop() else {
        panic!("no function at the end");
    };
    let ours = |attr: &Attribute| attr.path().is_ident("idempotent");
    let at = handler.attrs.iter().position(ours).expect("an attribute");
    let Meta::List(options) = handler.attrs.remove(at).meta else {
        panic!("no options");
    };
    let tokens = idempotent_tokens(options.tokens, handler.into_token_stream(), BOTH);
    let expansion: File = syn::parse2(tokens).expect("items");
    file.items.extend(expansion.items);
    prettyplease::unparse(&file)
}

#[test]
fn the_expansion_is_the_one_that_people_have_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expansions");
    let sources = fs::read_dir(directory.join("from")).expect("a directory");
    let mut seen = 0;
    for source in sources {
        let source = source.expect("a file").path();
        let target = directory.join(source.file_name().expect("a name"));
        let expanded = expanded(&fs::read_to_string(&source).expect("a source"));
        if env::var_os("IDEM_BLESS").is_some() {
            fs::write(&target, expanded).expect("a place to write to");
        } else {
            let read = fs::read_to_string(&target).unwrap_or_default();
            let hint = "run `IDEM_BLESS=1 cargo test -p idem-macros` and read the difference";
            assert!(read == expanded, "{}: {hint}", target.display());
        }
        seen += 1;
    }
    assert!((1..=6).contains(&seen), "{seen} snapshots");
}
