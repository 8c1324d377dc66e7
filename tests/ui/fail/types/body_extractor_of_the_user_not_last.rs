#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct Valid<T>(T);
impl<S: Sync, T> axum::extract::FromRequest<S> for Valid<T> {
    type Rejection = ();
    async fn from_request(_: axum::extract::Request, _: &S) -> Result<Self, ()> {
        Err(())
    }
}

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(Valid(p): Valid<Payment>, account: Account, tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
