#![allow(unused_variables)]

use idem_ui::*;

struct Payments;

#[idempotent(scope = "pay", tenant = shared)]
impl Payments {
    async fn pay(_tx: &mut PgConnection) {}
}

fn main() {
    let _ = Payments::pay;
}
