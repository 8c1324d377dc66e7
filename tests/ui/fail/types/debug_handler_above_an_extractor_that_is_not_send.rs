#![allow(dead_code, unused_variables)]

use idem_ui::*;

use std::rc::Rc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

struct Cached(Rc<str>);

impl<S: Sync> FromRequestParts<S> for Cached {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Err(StatusCode::UNAUTHORIZED)
    }
}

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = App)]
async fn pay(account: Account, tx: &mut PgConnection, cached: Cached) {}

fn main() {}
