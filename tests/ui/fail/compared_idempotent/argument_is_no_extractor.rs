#![allow(unused_variables)]

use axum::http::{HeaderName, header::LOCATION};
use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(
    account: Account,
    tx: &mut PgConnection,
    payment: Payment,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Payment>), ApiError> {
    let location = [(LOCATION, "/payments/1".to_owned())];
    Ok((StatusCode::CREATED, location, Json(payment)))
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
