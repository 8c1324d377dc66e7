#![deny(warnings)]

use idem_ui::*;

pub use idem_runtime;

macro_rules! handler {
    ($name:ident, $scope:literal, $account:ident, $tenant:expr, $tx:ty, $connection:ty, $ttl:expr, $body:block) => {
        #[idempotent(scope = $scope, tenant = $tenant, ttl = $ttl, crate = $crate::idem_runtime)]
        async fn $name($account: Account, tx: $tx, Json(payment): Json<Payment>) -> Json<Payment> {
            let _: &mut $connection = tx;
            $body;
            Json(payment)
        }
    };
}

macro_rules! wrapped {
    ($handler:item) => {
        #[idempotent(scope = "wrapped", tenant = shared)]
        $handler
    };
}

handler!(create, "create", account, account.id, &mut PgConnection, PgConnection, "1h", { account });

wrapped! {
    async fn wrapped(_tx: &mut PgConnection) {}
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(create).put(wrapped));
}
