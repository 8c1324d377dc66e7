#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn pay<'a, 'b>(tx: &'a mut PgConnection)
where
    'a: 'b,
{
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
