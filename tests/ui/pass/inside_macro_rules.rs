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

macro_rules! written {
    (
        $(#[$attr:meta])*
        $vis:vis async fn $name:ident($($pat:ident: $ty:ty),*) -> $returned:ty $body:block
    ) => {
        $(#[$attr])*
        $vis async fn $name($($pat: $ty),*) -> $returned $body
    };
}

written! {
    #[idempotent(scope = "written", tenant = account.id)]
    pub async fn written(account: Account, _tx: &mut PgConnection, body: String) -> String { body }
}

macro_rules! options {
    ($header:literal, $key:expr, $flag:literal, $tenant:path, $time:literal, $size:expr, $record:expr) => {
        #[idempotent(
            scope = "header",
            tenant = $tenant(account),
            key = header($header),
            required = $flag,
            wait = $time,
            max_response = $size,
            record = $record
        )]
        async fn header(account: Account, _tx: &mut PgConnection) {}

        #[idempotent(scope = "header", tenant = shared, key = header($key))]
        async fn key(_tx: &mut PgConnection) {}
    };
}

fn id(account: &Account) -> i64 {
    account.id
}

options!("x-key", "x-key", false, id, "1s", "1MiB", "all");

fn main() {
    let _: Router<App> = Router::new()
        .route("/", post(create).put(wrapped).patch(written))
        .route("/options", post(header).put(key));
}
