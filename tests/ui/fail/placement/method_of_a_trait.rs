#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct P;
trait T {
    async fn pay(tx: &mut PgConnection);
}
impl T for P {
    #[idempotent(scope = "pay", tenant = shared)]
    async fn pay(tx: &mut PgConnection) {}
}

fn main() {}
