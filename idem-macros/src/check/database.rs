//! Whose transaction or lease it is.

use quote::ToTokens;
use syn::{Type, TypeParam, TypeParamBound, WherePredicate};

use super::Features;
use super::parameters::reference_to;
use crate::diag::Mistakes;
use crate::handler::{Handler, Param};
use crate::role::{
    Database, Role, database, is_named_by, last_name, last_type_argument, ungrouped,
};

pub(super) fn check(handler: &Handler, param: &Param, features: Features, mistakes: &Mistakes) {
    check_backend(param, features, mistakes);
    check_any(handler, param, mistakes);
}

/// The runtime speaks only to the databases whose feature is on.
fn check_backend(param: &Param, features: Features, mistakes: &Mistakes) {
    let wanted = match &param.role {
        Role::Transaction(database) => *database,
        Role::Lease(ty) => database(ty),
        Role::Extractor | Role::Claim | Role::Misused(_) => return,
    };
    let (what, feature) = match wanted {
        Database::Postgres if !features.postgres => ("PostgreSQL", "postgres"),
        Database::Sqlite if !features.sqlite => ("SQLite", "sqlite"),
        Database::MySql | Database::Any => {
            let what = match wanted {
                Database::Any => "`Any` does not say which database holds the key",
                _ => "`idem-runtime` does not speak to MySQL",
            };
            let help = "use `&mut PgConnection` or `&mut SqliteConnection`";
            return mistakes.add(ungrouped(param.ty()), what, help);
        }
        _ => return,
    };
    let what = format!("`idem-runtime` was built without {what}");
    let help =
        format!("write `idem-runtime = {{ …, features = [\"{feature}\"] }}` in `Cargo.toml`");
    mistakes.add(ungrouped(param.ty()), what, help);
}

/// A handler may be generic over the databases that hold keys, but not over all of sqlx's.
fn check_any(handler: &Handler, param: &Param, mistakes: &Mistakes) {
    let Some(database) = any_database(handler, param) else {
        return;
    };
    let name = &database.ident;
    let what = format!("`{name}` can be any database; keys are held by PostgreSQL or SQLite");
    let help = format!("write `{name}: idem_runtime::Backend`");
    mistakes.add(database, what, help);
}

/// The `DB` of a `Transaction<'_, DB>` of which nothing is known, or only that it is sqlx's.
pub(crate) fn any_database<'a>(handler: &'a Handler, param: &Param) -> Option<&'a TypeParam> {
    if !matches!(param.role, Role::Transaction(_) | Role::Lease(_)) {
        return None;
    }
    let (_, path) = last_name(reference_to(ungrouped(param.ty())))?;
    let (name, path) = last_name(last_type_argument(path.segments.last()?)?)?;
    path.get_ident()?;
    let generics = &handler.sig.generics;
    let database = generics.type_params().find(|it| it.ident == name)?;
    let clause = generics.where_clause.iter().flat_map(|it| &it.predicates);
    let mut elsewhere = clause.filter_map(|predicate| match predicate {
        WherePredicate::Type(of) if is_called(&of.bounded_ty, &name) => Some(&of.bounds),
        _ => None,
    });
    let says_nothing = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => {
            let last = bound.path.segments.last();
            let said = ["Database", "Send", "Sized", "Sync"];
            is_named_by(&bound.path, &["sqlx", "std"])
                && last.is_none_or(|last| said.iter().any(|name| last.ident == name))
        }
        _ => true,
    };
    let bounds = database.bounds.iter();
    let known = bounds
        .chain(elsewhere.by_ref().flatten())
        .any(|bound| !says_nothing(bound));
    (!known).then_some(database)
}

fn is_called(ty: &Type, name: &str) -> bool {
    ty.to_token_stream().to_string() == name
}
