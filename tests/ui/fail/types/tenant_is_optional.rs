#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct Maybe {
    id: Option<i64>,
}
impl<S: Sync> axum::extract::FromRequestParts<S> for Maybe {
    type Rejection = ();
    async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, ()> {
        Err(())
    }
}

#[idempotent(scope = "pay", tenant = a.id)]
async fn pay(a: Maybe, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
