#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct Payments;

impl Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    pub async fn pay(self, account: Account, tx: &mut PgConnection) {}
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(Payments::pay));
}
