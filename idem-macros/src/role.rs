//! What a parameter is for, read from its type.
//!
//! An axum extractor is always an owned value, so a reference is free to mean
//! something else. Types are recognised by their last name: an attribute sees
//! tokens, not types.

use syn::{
    GenericArgument, Lifetime, Path, PathArguments, PathSegment, Type, TypePath, TypeReference,
};

/// What a parameter is for.
pub(crate) enum Role {
    Extractor,
    /// `&mut PgConnection` and the like: atomic mode.
    Transaction(Database),
    /// `&Lease<DB>`: leased mode. The type is `DB`.
    Lease(Box<Type>),
    /// `&Claim`.
    Claim,
    /// Reported by the signature's rules.
    Misused(Misuse),
}

/// A parameter that cannot be filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// A transaction by value, or by `&`.
    NotMutable,
    /// A lease or a claim by value, or by `&mut`.
    NotShared,
    /// A pool, which hands out connections outside the transaction.
    Pool,
    /// `Idempotency<DB>`, which the router's state or the caller has.
    Handle,
    /// `&Lease` without its database.
    LeaseOfWhat,
    /// `&Lease<PgConnection>`, or the same of a transaction.
    OfAConnection,
    /// `&mut Transaction` without its database.
    TransactionOfWhat,
    /// `&mut PgConnection<'_>`, which has no parameters.
    Parameters,
    Text,
    Reference,
    /// `dyn Trait`, `[T]`, or `str`, by value.
    Unsized,
    /// A mutable reference, or one to what is called a connection: likely an alias of one.
    MutableReference,
}

impl Misuse {
    /// Whether the parameter was meant to choose the mode, so that a missing
    /// mode is not reported as well.
    pub(crate) fn is_mode(self) -> bool {
        match self {
            Self::NotMutable
            | Self::NotShared
            | Self::Pool
            | Self::LeaseOfWhat
            | Self::OfAConnection
            | Self::TransactionOfWhat
            | Self::Parameters
            | Self::Handle
            | Self::MutableReference => true,
            Self::Text | Self::Reference | Self::Unsized => false,
        }
    }
}

/// The database of a transaction or lease, as far as its name tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Postgres,
    Sqlite,
    MySql,
    /// sqlx's driver that is chosen at run time.
    Any,
    /// An alias or a parameter, which rustc will judge.
    Unknown,
}

impl Role {
    pub(crate) fn of(ty: &Type) -> Self {
        match ungrouped(ty) {
            Type::Reference(reference) => Self::of_reference(reference),
            // An owned type may be an extractor of the user's that is called like one of ours: it
            // is, if it is written with its path.
            Type::Path(path) if !is_named_by(&path.path, &["idem_runtime", "sqlx"]) => {
                Self::Extractor
            }
            Type::Path(path) => match kind(path) {
                Kind::Transaction(_) | Kind::Bare => Self::Misused(Misuse::NotMutable),
                Kind::OfAConnection => Self::Misused(Misuse::OfAConnection),
                Kind::Parameters => Self::Misused(Misuse::Parameters),
                Kind::Lease(_) | Kind::Claim => Self::Misused(Misuse::NotShared),
                Kind::Pool => Self::Misused(Misuse::Pool),
                Kind::Handle => Self::Misused(Misuse::Handle),
                Kind::Text => Self::Misused(Misuse::Unsized),
                Kind::Other => Self::Extractor,
            },
            Type::TraitObject(_) | Type::Slice(_) => Self::Misused(Misuse::Unsized),
            _ => Self::Extractor,
        }
    }

    fn of_reference(reference: &TypeReference) -> Self {
        let mutable = reference.mutability.is_some();
        let kind = match ungrouped(&reference.elem) {
            Type::Path(path) => kind(path),
            _ => Kind::Other,
        };
        match (kind, mutable) {
            (Kind::OfAConnection, _) => Self::Misused(Misuse::OfAConnection),
            (Kind::Parameters, _) => Self::Misused(Misuse::Parameters),
            (Kind::Transaction(database), true) => Self::Transaction(database),
            (Kind::Lease(Some(database)), false) => Self::Lease(database),
            (Kind::Claim, false) => Self::Claim,
            (Kind::Transaction(_) | Kind::Bare, false) => Self::Misused(Misuse::NotMutable),
            (Kind::Lease(None), false) => Self::Misused(Misuse::LeaseOfWhat),
            (Kind::Lease(_) | Kind::Claim, true) => Self::Misused(Misuse::NotShared),
            (Kind::Bare, true) => Self::Misused(Misuse::TransactionOfWhat),
            (Kind::Pool, _) => Self::Misused(Misuse::Pool),
            (Kind::Handle, _) => Self::Misused(Misuse::Handle),
            (Kind::Text, _) => Self::Misused(Misuse::Text),
            (Kind::Other, _) if mutable || is_called_a_connection(&reference.elem) => {
                Self::Misused(Misuse::MutableReference)
            }
            (Kind::Other, _) => Self::Misused(Misuse::Reference),
        }
    }
}

enum Kind {
    Transaction(Database),
    /// `Transaction`, without arguments.
    Bare,
    Lease(Option<Box<Type>>),
    OfAConnection,
    /// `PgConnection<'_>`
    Parameters,
    Claim,
    Pool,
    Handle,
    Text,
    Other,
}

fn kind(path: &TypePath) -> Kind {
    let Some(last) = path.path.segments.last() else {
        return Kind::Other;
    };
    let parameter = last_type_argument(last);
    match &*last.ident.to_string() {
        "PgConnection" | "SqliteConnection" if !last.arguments.is_none() => Kind::Parameters,
        "PgConnection" | "PgTransaction" => Kind::Transaction(Database::Postgres),
        "SqliteConnection" | "SqliteTransaction" => Kind::Transaction(Database::Sqlite),
        "MySqlConnection" | "MySqlTransaction" => Kind::Transaction(Database::MySql),
        "AnyConnection" => Kind::Transaction(Database::Any),
        "Transaction" | "Lease" if parameter.is_some_and(is_connection) => Kind::OfAConnection,
        "Transaction" if last.arguments.is_none() => Kind::Bare,
        "Transaction" => Kind::Transaction(parameter.map_or(Database::Unknown, database)),
        "Lease" => Kind::Lease(parameter.cloned().map(Box::new)),
        "Claim" => Kind::Claim,
        "Idempotency" => Kind::Handle,
        "Pool" | "PgPool" | "SqlitePool" | "MySqlPool" | "AnyPool" | "PoolConnection" => Kind::Pool,
        "str" => Kind::Text,
        _ => Kind::Other,
    }
}

/// Another library's transaction or connection.
fn is_called_a_connection(ty: &Type) -> bool {
    let last = last_name(ty).map(|(name, _)| name);
    last.is_some_and(|name| name.ends_with("Connection") || name.ends_with("Transaction"))
}

/// Whether a type is a connection or a pool, where a database is expected.
fn is_connection(ty: &Type) -> bool {
    let last = last_name(ty).map(|(name, _)| name);
    last.is_some_and(|name| name.ends_with("Connection") || name.ends_with("Pool"))
}

/// The database that a marker type such as `sqlx::Postgres` names.
pub(crate) fn database(ty: &Type) -> Database {
    let name = match ungrouped(ty) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    match name.map(|segment| segment.ident.to_string()).as_deref() {
        Some("Postgres") => Database::Postgres,
        Some("Sqlite") => Database::Sqlite,
        Some("MySql") => Database::MySql,
        Some("Any") => Database::Any,
        _ => Database::Unknown,
    }
}

pub(crate) fn last_type_argument(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments
        .args
        .iter()
        .rev()
        .find_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        })
}

/// `Transaction<'_, Postgres>` for a `Transaction<Postgres>`, owned or not, which rustc refuses.
pub(crate) fn with_lifetime(ty: &Type) -> Option<Type> {
    let mut ty = ungrouped(ty).clone();
    let segment = match &mut ty {
        Type::Reference(reference) => match &mut *reference.elem {
            Type::Path(path) => path.path.segments.last_mut(),
            _ => None,
        },
        Type::Path(path) => path.path.segments.last_mut(),
        _ => None,
    }?;
    let PathArguments::AngleBracketed(list) = &mut segment.arguments else {
        return None;
    };
    let is_lifetime = |argument: &GenericArgument| matches!(argument, GenericArgument::Lifetime(_));
    if segment.ident != "Transaction" || list.args.iter().any(is_lifetime) {
        return None;
    }
    let elided = Lifetime::new("'_", list.lt_token.span);
    list.args.insert(0, GenericArgument::Lifetime(elided));
    Some(ty)
}

/// The connection type with every lifetime `'static`, so that it can be named
/// outside the function: `Transaction<'_, DB>` becomes `Transaction<'static, DB>`.
pub(crate) fn connection(ty: &Type) -> Type {
    let Type::Reference(reference) = ungrouped(ty) else {
        return ty.clone();
    };
    let mut connection = ungrouped(&reference.elem).clone();
    let segment = match &mut connection {
        Type::Path(path) => path.path.segments.last_mut(),
        _ => None,
    };
    let arguments = segment.and_then(|segment| match &mut segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments),
        _ => None,
    });
    for argument in arguments.into_iter().flat_map(|list| list.args.iter_mut()) {
        if let GenericArgument::Lifetime(lifetime) = argument {
            *lifetime = Lifetime::new("'static", lifetime.span());
        }
    }
    connection
}

/// Removes the invisible group that `macro_rules!` puts around `$t:ty`, and
/// parentheses.
pub(crate) fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        other => other,
    }
}

/// Whether a path is one word, or leads into one of these crates.
pub(crate) fn is_named_by(path: &Path, crates: &[&str]) -> bool {
    let first = path.segments.first();
    path.segments.len() == 1
        || first.is_some_and(|first| crates.iter().any(|name| first.ident == name))
}

/// The last name of a type's path, and the path.
pub(crate) fn last_name(ty: &Type) -> Option<(String, &Path)> {
    match ungrouped(ty) {
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            Some((last.ident.to_string(), &path.path))
        }
        _ => None,
    }
}
