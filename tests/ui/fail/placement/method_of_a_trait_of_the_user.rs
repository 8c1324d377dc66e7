#![allow(dead_code, unused_variables)]

use idem_ui::*;

trait Api {
    fn pay(&self, account: Account, tx: &mut PgConnection) -> impl Future<Output = ()>;
}

struct Payments;

impl Api for Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    async fn pay(&self, account: Account, tx: &mut PgConnection) {}
}

fn main() {}
