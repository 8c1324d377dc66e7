#![allow(dead_code, unused_variables)]

use idem_ui::*;

macro_rules! handler {
    ($ttl:literal) => {
        #[idempotent(scope = "pay", tenant = shared, ttl = $ttl)]
        async fn pay(tx: &mut PgConnection) {}
    };
}

handler!("24 apples");

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
