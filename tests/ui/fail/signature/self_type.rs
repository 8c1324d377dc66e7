#![allow(unused_variables)]

use idem_ui::*;

struct Payments;

impl Payments {
    const CREATED: StatusCode = StatusCode::CREATED;

    #[idempotent(scope = "pay", tenant = account.id)]
    async fn pay(account: Account, tx: &mut PgConnection) -> StatusCode {
        Self::CREATED
    }
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(Payments::pay));
}
