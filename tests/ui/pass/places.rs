#![deny(warnings)]

use idem_ui::*;

struct Payments;

impl Payments {
    #[idempotent(scope = "associated", tenant = account.id)]
    async fn create(account: Account, _tx: &mut PgConnection) -> Response {
        struct Local(i64);
        impl Local {
            fn new(id: i64) -> Self {
                Self(id)
            }
        }
        Local::new(account.id).0.to_string().into_response()
    }
}

mod inner {
    use super::*;

    #[idempotent(scope = "main", tenant = account.id)]
    pub(crate) async fn main(account: Account, _tx: &mut PgConnection) {}

    #[idempotent(scope = "raw", tenant = r#type.id)]
    pub(super) async fn r#async(r#type: Account, r#move: &mut PgConnection) {
        let _ = (r#type, r#move);
    }
}

fn main() {
    #[idempotent(scope = "local", tenant = account.id)]
    async fn local(account: Account, _tx: &mut PgConnection) {}

    let _: Router<App> = Router::new()
        .route("/a", post(local).put(Payments::create))
        .route("/b", post(inner::main).put(inner::r#async));
}
