#![deny(warnings)]

extern crate idem_runtime as idem;

use idem_ui::*;

mod web {
    pub use idem_runtime as retry;
}

#[idempotent(scope = "extern", tenant = account.id, crate = ::idem)]
async fn by_extern(account: Account, _tx: &mut PgConnection) {}

#[idempotent(scope = "module", tenant = account.id, crate = crate::web::retry)]
async fn by_module(account: Account, _tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new().route("/", post(by_extern).put(by_module));
}
