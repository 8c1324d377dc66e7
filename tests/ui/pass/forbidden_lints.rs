#![forbid(unused, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "forbidden", tenant = account.id, fingerprint = payment)]
async fn handler(account: Account, other: Account, _tx: &mut PgConnection, Json(payment): Json<Payment>) {
    #![allow(clippy::unused_async)]
    drop(other);
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(handler));
}
