#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct Payments;

impl Payments {
    const SCOPE: &'static str = "pay";

    #[idempotent(scope = Self::SCOPE, tenant = account.id)]
    async fn pay(account: Account, tx: &mut PgConnection) {}
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(Payments::pay));
}
