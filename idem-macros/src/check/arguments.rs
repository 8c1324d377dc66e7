//! Whether the option expressions name arguments that exist.
//!
//! Only what is certain is reported: a lower-case word at the root of an
//! expression can only be an argument. Paths, calls, macros, blocks, and
//! closures are left to rustc.

use proc_macro2::{Literal, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Expr, ExprPath, Ident};

use super::exits;
use crate::diag::{Mistakes, list, nearest};
use crate::handler::Handler;
use crate::key::Key;
use crate::names::{self, Name};
use crate::options::Options;
use crate::patterns::bindings;
use crate::role::{Role, last_name};
use crate::values::{Tenant, Ttl, is_variable};

/// What people write for `tenant = shared`.
const EVERYBODY: [&str; 7] = [
    "all", "any", "anyone", "everyone", "global", "none", "public",
];

/// The names that an expression can use, and those that it cannot yet use.
struct Arguments {
    usable: Vec<String>,
    lent: Vec<String>,
    /// What is reported by the signature's rules.
    misused: Vec<String>,
    /// The types of arguments called `_`.
    nameless: Vec<String>,
    /// The name of the router's state.
    state: Option<String>,
    /// Type names with the argument of that type: `Account`, `account`.
    types: Vec<(String, String)>,
}

pub(crate) fn check(handler: &Handler, options: &Options, mistakes: &Mistakes) {
    let Some(arguments) = Arguments::of(handler) else {
        return;
    };
    for (name, value) in expressions(options) {
        exits::check(value, name, mistakes);
        if exits::check_header(value, name, mistakes) {
            continue;
        }
        let mut words = Vec::new();
        collect_words(value, &mut words);
        if name == names::KEY && check_header(value, &words, &arguments, mistakes) {
            continue;
        }
        for word in words {
            check_word(word, name, handler, &arguments, mistakes);
        }
    }
    if let Some(Tenant::Shared(word)) = &options.tenant
        && arguments.usable.iter().any(|argument| argument == "shared")
    {
        let what = "`shared` means all callers, and is also an argument";
        mistakes.add(word, what, "rename the argument");
    }
}

impl Arguments {
    /// `None` when a macro hides what a pattern binds.
    fn of(handler: &Handler) -> Option<Self> {
        let mut arguments = Self {
            usable: Vec::new(),
            lent: Vec::new(),
            misused: Vec::new(),
            nameless: Vec::new(),
            state: None,
            types: Vec::new(),
        };
        for param in &handler.params {
            let names = bindings(param.pat())?;
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            match (last_name(param.ty()), &names[..]) {
                (Some((ty, _)), [name]) => {
                    if ty == "State" {
                        arguments.state = Some(name.clone());
                    }
                    arguments.types.push((ty, name.clone()));
                }
                (Some((ty, _)), []) => arguments.nameless.push(ty),
                _ => {}
            }
            match param.role {
                Role::Extractor => arguments.usable.extend(names),
                Role::Misused(_) => arguments.misused.extend(names),
                _ => arguments.lent.extend(names),
            }
        }
        Some(arguments)
    }
}

/// `headers.get("x-key")` may be absent, and is read by `header("x-key")`.
fn check_header(
    value: &Expr,
    words: &[&ExprPath],
    arguments: &Arguments,
    mistakes: &Mistakes,
) -> bool {
    let is_map = |word: &&ExprPath| {
        let map = |(ty, name): &(String, String)| ty == "HeaderMap" && word.path.is_ident(name);
        arguments.types.iter().any(map)
    };
    let name = find_text(value.to_token_stream());
    let Some(name) = name.filter(|_| words.iter().any(is_map)) else {
        return false;
    };
    let help = format!("write `key = header({name})`");
    mistakes.add(
        value,
        "a header may be absent, or be there twice; `header(…)` sees to that",
        help,
    );
    true
}

/// The first string of an expression.
fn find_text(tokens: TokenStream) -> Option<Literal> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Literal(text) if text.to_string().starts_with('"') => Some(text),
        TokenTree::Group(group) => find_text(group.stream()),
        _ => None,
    })
}

/// The options that are computed for each request.
pub(crate) fn expressions(options: &Options) -> Vec<(Name, &Expr)> {
    let mut expressions = Vec::new();
    if let Some(Tenant::Computed(value)) = &options.tenant {
        expressions.push((names::TENANT, value));
    }
    if let Some(Key::Computed(value)) = &options.key {
        expressions.push((names::KEY, value));
    }
    if let Some(Ttl::Computed(value)) = &options.ttl {
        expressions.push((names::TTL, value));
    }
    let whole = [
        (names::FINGERPRINT, &options.fingerprint),
        (names::STORE, &options.store),
    ];
    for (name, value) in whole {
        expressions.extend(value.as_ref().map(|value| (name, value)));
    }
    expressions
}

/// Collects the paths of one word that stand where a value is read.
fn collect_words<'a>(value: &'a Expr, words: &mut Vec<&'a ExprPath>) {
    match value {
        Expr::Path(path) if path.path.get_ident().is_some() => words.push(path),
        _ => {
            for part in parts(value) {
                collect_words(part, words);
            }
        }
    }
}

/// The expressions that an expression reads; not the function that it calls.
pub(super) fn parts(value: &Expr) -> Vec<&Expr> {
    match value {
        Expr::Field(field) => vec![&field.base],
        Expr::MethodCall(call) => std::iter::once(&*call.receiver).chain(&call.args).collect(),
        Expr::Call(call) => call.args.iter().collect(),
        Expr::Reference(reference) => vec![&reference.expr],
        Expr::Unary(unary) => vec![&unary.expr],
        Expr::Paren(paren) => vec![&paren.expr],
        Expr::Group(group) => vec![&group.expr],
        Expr::Cast(cast) => vec![&cast.expr],
        Expr::Await(awaited) => vec![&awaited.base],
        Expr::Try(tried) => vec![&tried.expr],
        Expr::Index(index) => vec![&index.expr, &index.index],
        Expr::Binary(binary) => vec![&binary.left, &binary.right],
        Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        Expr::Array(array) => array.elems.iter().collect(),
        _ => Vec::new(),
    }
}

fn check_word(
    path: &ExprPath,
    name: Name,
    handler: &Handler,
    arguments: &Arguments,
    mistakes: &Mistakes,
) {
    let Some(word) = path.path.get_ident().map(Ident::to_string) else {
        return;
    };
    let of_type = arguments.types.iter().find(|(ty, _)| *ty == word);
    let usable = &arguments.usable;
    if let Some((_, argument)) = of_type {
        let what = format!("`{word}` is a type; `{name}` takes a value");
        let help = format!("use the argument: `{argument}`, or a field of it");
        return mistakes.add(path, what, help);
    }
    // A `self` that the signature has is reported there.
    let is_self = word == "self" && handler.receiver().is_some();
    let known = usable.contains(&word) || arguments.misused.contains(&word);
    if is_self || !is_variable(path) || known {
        return;
    }
    let what = if arguments.lent.contains(&word) {
        format!("`{word}` cannot be used in `{name}`; the key is claimed before `{word}` exists")
    } else {
        format!("`{word}` is no argument of `{}`", handler.name())
    };
    let ty = camel_case(&word);
    if name == names::TENANT
        && (EVERYBODY.contains(&&*word) || nearest(&word, ["shared"]).is_some())
    {
        let help = "write `tenant = shared` if all callers share their keys";
        return mistakes.add(path, what, help);
    }
    let help = match nearest(&word, usable.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if arguments.nameless.contains(&ty) => {
            format!("give the argument its name: `{word}: {ty}`")
        }
        None if name == names::STORE => match &arguments.state {
            Some(state) => format!("write where the state has it: `store = {state}.idempotency`"),
            None => {
                "take it from the state: `State(app): State<App>`, and `store = app.idempotency`"
                    .to_owned()
            }
        },
        None if usable.is_empty() => {
            format!("add an extractor that provides it, such as `{word}: {ty}`")
        }
        None if usable.len() == 1 => format!("the argument is {}", list(usable, "and")),
        None => format!("the arguments are {}", list(usable, "and")),
    };
    mistakes.add(path, what, help);
}

/// The type that an argument called `word` probably has.
fn camel_case(word: &str) -> String {
    let words = word.trim_start_matches("r#").split('_');
    words
        .map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars).collect::<String>()
        })
        .collect()
}
