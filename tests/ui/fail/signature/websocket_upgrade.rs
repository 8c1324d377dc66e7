#![allow(unused_variables)]

use idem_ui::*;
struct WebSocketUpgrade;

impl<S: Sync> axum::extract::FromRequestParts<S> for WebSocketUpgrade {
    type Rejection = StatusCode;

    async fn from_request_parts(
        _: &mut axum::http::request::Parts,
        _: &S,
    ) -> Result<Self, StatusCode> {
        Ok(Self)
    }
}

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection, socket: WebSocketUpgrade) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
