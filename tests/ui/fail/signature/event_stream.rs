#![allow(unused_variables)]

use idem_ui::*;
use std::convert::Infallible;

use axum::response::sse::{Event, Sse};

type Events = axum::response::sse::KeepAliveStream<futures_util::stream::Empty<Result<Event, Infallible>>>;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(
    account: Account,
    tx: &mut PgConnection,
) -> Sse<Events> {
    Sse::new(futures_util::stream::empty()).keep_alive(Default::default())
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
