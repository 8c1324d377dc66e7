#![deny(warnings)]
#![allow(dead_code)]

//! Types of the user that are called like what the attribute knows: by their path they are what
//! they are, and what shadows the prelude is nobody's but the user's.

use idem_ui::{Account, App, FromRef, PgConnection, Router, post};

mod own {
    use std::convert::Infallible;

    use axum::extract::{FromRequest, FromRequestParts, Request};
    use axum::http::request::Parts;

    macro_rules! extractors {
        ($($name:ident)*) => {$(
            pub struct $name<T = ()>(pub T);

            impl<S: Sync, T: Default> FromRequestParts<S> for $name<T> {
                type Rejection = Infallible;

                async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
                    Ok(Self(T::default()))
                }
            }
        )*};
    }

    extractors!(Claim Lease PgConnection Pool String Transaction Vec);

    pub struct Form;

    impl<S: Sync> FromRequest<S> for Form {
        type Rejection = Infallible;

        async fn from_request(_: Request, _: &S) -> Result<Self, Infallible> {
            Ok(Self)
        }
    }
}

mod core {}
mod std {}
mod axum {}
mod sqlx {}

trait Send {}
trait Future {}
trait Into {}
struct Vec;
struct Response;
struct Handle;
struct IntoResponse;

#[idem_ui::idempotent(scope = "own", tenant = claim.0, store = app.idempotency, ttl = ttl())]
#[allow(clippy::too_many_arguments)]
async fn handler(
    idem_ui::State(app): idem_ui::State<App>,
    claim: own::Claim<i64>,
    _: own::Lease,
    _: own::PgConnection,
    _: own::Pool,
    _: own::String,
    _: own::Transaction,
    tx: &mut PgConnection,
    _: own::Vec<i64>,
    _: own::Form,
) {
    let _ = (app, claim, tx);
}

fn ttl() -> ::core::time::Duration {
    ::core::time::Duration::from_secs(60)
}

#[idem_ui::idempotent(scope = "parameters", tenant = account.id)]
async fn unbounded<R, E>(account: Account, _tx: &mut PgConnection, _: idem_ui::State<R>) -> Result<(), E>
where
    E: idem_ui::IntoResponse,
{
    Ok(())
}

#[derive(Clone)]
struct Repository;

impl FromRef<App> for Repository {
    fn from_ref(_: &App) -> Self {
        Self
    }
}

fn main() {
    let _: Router<App> = Router::new()
        .route("/", post(handler))
        .route("/unbounded", post(unbounded::<Repository, idem_ui::ApiError>));
}
