#![allow(dead_code, unused_variables)]

use idem_ui::*;

struct P;
impl P {
    #[idempotent(scope = "pay", tenant = self.id)]
    async fn pay(self, tx: &mut PgConnection) {}
}

fn main() {}
