#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct Payments {
    limit: i64,
}

impl Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    async fn pay(&self, account: Account, tx: &mut PgConnection) -> String {
        self.limit.to_string()
    }
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(Payments::pay));
}
