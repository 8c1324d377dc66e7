#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
#[axum::debug_handler(state = App)]
async fn pay(account: Account, tx: &mut SqliteConnection) {}

fn main() {
    let _: Router<OnSqlite> = Router::new().route("/", post(pay));
}

#[derive(Clone, FromRef)]
struct OnSqlite {
    idempotency: Idempotency<Sqlite>,
}
