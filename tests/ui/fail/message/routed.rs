#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(message, scope = "pay", tenant = "orders", key = event.id)]
async fn on_paid(tx: &mut PgConnection, event: OrderPaid) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(on_paid));
}
