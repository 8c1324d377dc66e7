#![deny(warnings)]
//! `#[utoipa::path]` above `#[idempotent]` describes the function as written.

use idem_ui::*;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(paths(pay))]
struct Api;

/// Pays.
#[utoipa::path(post, path = "/payments", responses((status = 201, description = "paid")))]
#[idempotent(scope = "pay", tenant = account.id)]
#[tracing::instrument(skip_all)]
#[axum::debug_handler(state = App)]
async fn pay(account: Account, _tx: &mut PgConnection, Json(_): Json<Payment>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let description = Api::openapi();
    assert!(description.paths.paths.contains_key("/payments"));
    let _: Router<App> = Router::new().route("/payments", post(pay));
}
