#![allow(unused_variables)]

use idem_ui::*;

#[derive(Clone)]
struct Payments {
    limit: i64,
}

impl Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    async fn pay(self, account: Account, tx: &mut PgConnection) -> String {
        self.limit.to_string()
    }
}

fn main() {
    let _ = Payments::pay;
}
