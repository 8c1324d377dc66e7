#![allow(dead_code, unused_variables)]

use idem_ui::*;

trait Named {
    const SCOPE: &'static str;
}

impl Named for App {
    const SCOPE: &'static str = "pay";
}

#[idempotent(scope = N::SCOPE, tenant = shared)]
async fn pay<N: Named>(tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay::<App>));
}
