#![deny(warnings)]

use idem_ui::*;

#[idempotent(scope = "opaque", tenant = shared)]
async fn opaque(_tx: &mut PgConnection) -> impl IntoResponse {
    StatusCode::CREATED
}

#[idempotent(scope = "fallible", tenant = shared)]
async fn fallible(tx: &mut PgConnection, body: String) -> Result<impl IntoResponse, ApiError> {
    if body.is_empty() {
        return Err(ApiError);
    }
    sqlx::query("select 1").execute(tx).await?;
    Ok((StatusCode::CREATED, [("x-id", "1")], "done"))
}

#[idempotent(scope = "response", tenant = shared)]
async fn response(_tx: &mut PgConnection) -> Response {
    ().into_response()
}

#[idempotent(scope = "tuple", tenant = shared)]
async fn tuple(_tx: &mut PgConnection) -> (StatusCode, &'static str) {
    (StatusCode::ACCEPTED, "later")
}

#[idempotent(scope = "axum_result", tenant = shared)]
async fn axum_result(_tx: &mut PgConnection) -> axum::response::Result<StatusCode> {
    Err(StatusCode::CONFLICT)?
}

fn main() {
    let _: Router<App> = Router::new()
        .route("/a", post(opaque).put(fallible))
        .route("/b", post(response).put(tuple).patch(axum_result));
}
