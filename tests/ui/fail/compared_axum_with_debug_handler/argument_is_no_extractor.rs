#![allow(unused_variables)]

use idem_ui::*;

#[axum::debug_handler(state = App)]
async fn pay(account: Account, payment: Payment) -> Result<(StatusCode, Json<Payment>), ApiError> {
    Ok((StatusCode::CREATED, Json(payment)))
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
