#![allow(unused_variables)]

use idem_ui::*;

fn main() {
    let pay = #[idempotent(scope = "pay", tenant = account.id)]
    async |account: Account, tx: &mut PgConnection| {};
    let _: Router<App> = Router::new().route("/", post(pay));
}
