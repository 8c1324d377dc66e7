#![allow(unused_variables)]

use idem_ui::*;

struct Payments;

impl Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    async fn pay(&self, account: Account, tx: &mut PgConnection) {}
}

fn main() {
    let _ = Payments::pay;
}
