#![allow(dead_code, unused_variables)]

use idem_ui::*;
use sqlx::{Database, Transaction};

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay<DB: Database>(account: Account, tx: &mut Transaction<'_, DB>) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay::<Postgres>));
}
