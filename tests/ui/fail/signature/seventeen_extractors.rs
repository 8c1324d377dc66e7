#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = a.id)]
async fn pay(
    a: Account,
    b: Account,
    c: Account,
    d: Account,
    e: Account,
    f: Account,
    g: Account,
    h: Account,
    i: Account,
    j: Account,
    k: Account,
    l: Account,
    m: Account,
    n: Account,
    o: Account,
    p: Account,
    q: Account,
    tx: &mut PgConnection,
) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
