#![allow(unused_variables)]

use idem_ui::*;

trait Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    async fn pay(&self, account: Account, tx: &mut PgConnection) {
        let _ = (account, tx);
    }
}

fn main() {}
