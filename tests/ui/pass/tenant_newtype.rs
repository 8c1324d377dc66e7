#![deny(warnings)]

use std::borrow::Cow;

use idem_runtime::TenantId;
use idem_ui::*;

struct Merchant(String);

impl TenantId for Merchant {
    fn tenant_id(&self) -> Cow<'_, str> {
        self.0.tenant_id()
    }
}

struct Caller {
    merchant: Merchant,
}

impl<S: Sync> axum::extract::FromRequestParts<S> for Caller {
    type Rejection = StatusCode;

    async fn from_request_parts(
        _: &mut axum::http::request::Parts,
        _: &S,
    ) -> Result<Self, StatusCode> {
        Err(StatusCode::UNAUTHORIZED)
    }
}

#[idempotent(scope = "newtype", tenant = caller.merchant)]
async fn newtype(caller: Caller, _tx: &mut PgConnection) -> String {
    caller.merchant.0
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(newtype));
}
