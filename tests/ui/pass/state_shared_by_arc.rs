//! A state that derives `FromRef` may be shared by an `Arc`.

use std::sync::Arc;

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, State(_app): State<Arc<App>>, _tx: &mut PgConnection) {}

fn main() {
    let _: Router<Arc<App>> = Router::new().route("/", post(pay));
}
