#![allow(unused_variables)]

use axum::http::{HeaderName, header::LOCATION};
use idem_ui::*;

#[axum::debug_handler(state = App)]
async fn pay(
    account: Account,
    payment: Payment,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Payment>), ApiError> {
    let location = [(LOCATION, "/payments/1".to_owned())];
    Ok((StatusCode::CREATED, location, Json(payment)))
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
