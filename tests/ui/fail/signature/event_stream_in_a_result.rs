#![allow(unused_variables)]

use idem_ui::*;
use std::convert::Infallible;

use axum::response::sse::{Event, Sse};
use futures_util::stream::{Empty, empty};

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(
    account: Account,
    tx: &mut PgConnection,
) -> Result<Sse<Empty<Result<Event, Infallible>>>, ApiError> {
    Ok(Sse::new(empty()))
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
