#![deny(warnings)]
#![allow(clippy::too_many_arguments)]

use idem_ui::*;

#[idempotent(scope = "many", tenant = a.id)]
async fn many(
    a: Account, _b: Account, _c: Account, _d: Account, _e: Account, _f: Account, _g: Account,
    _tx: &mut PgConnection,
    _h: Account, _i: Account, _j: Account, _k: Account, _l: Account, _m: Account, _n: Account,
    _o: Account, Json(payment): Json<Payment>,
) -> Json<Payment> {
    Json(payment)
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(many));
}
