#![deny(warnings)]

use axum::body::Bytes;
use axum::extract::{FromRequest, Multipart, Request};
use axum::{Form, RequestExt};
use idem_ui::*;

struct Valid<T>(T);

impl<S: Sync> FromRequest<S> for Valid<Payment> {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let Json(payment) = request.extract().await.map_err(IntoResponse::into_response)?;
        Ok(Self(payment))
    }
}

#[idempotent(scope = "json", tenant = account.id)]
async fn json(account: Account, _tx: &mut PgConnection, Json(body): Json<Payment>) -> Json<Payment> {
    Json(body)
}

#[idempotent(scope = "optional", tenant = account.id)]
async fn optional(account: Account, body: Option<Json<Payment>>, _tx: &mut PgConnection) -> String {
    format!("{}", body.is_some())
}

#[idempotent(scope = "form", tenant = account.id)]
async fn form(_tx: &mut PgConnection, account: Account, Form(body): Form<Payment>) -> String {
    body.currency
}

#[idempotent(scope = "bytes", tenant = account.id)]
async fn bytes(account: Account, body: Bytes, _tx: &mut PgConnection) -> Bytes {
    body
}

#[idempotent(scope = "string", tenant = account.id)]
async fn string(account: Account, _tx: &mut PgConnection, mut body: String) -> String {
    body.push('!');
    body
}

#[idempotent(scope = "multipart", tenant = account.id)]
async fn multipart(account: Account, _tx: &mut PgConnection, mut body: Multipart) -> StatusCode {
    match body.next_field().await {
        Ok(Some(_)) => StatusCode::CREATED,
        _ => StatusCode::BAD_REQUEST,
    }
}

#[idempotent(scope = "request", tenant = account.id)]
async fn request(account: Account, _tx: &mut PgConnection, request: Request) -> String {
    request.uri().to_string()
}

#[idempotent(scope = "valid", tenant = account.id)]
async fn valid(
    account: Account,
    _tx: &mut PgConnection,
    Valid(Payment { amount, .. }): Valid<Payment>,
) -> String {
    amount.to_string()
}

fn main() {
    let _: Router<App> = Router::new()
        .route("/json", post(json).put(optional))
        .route("/form", post(form).put(bytes))
        .route("/string", post(string).put(multipart))
        .route("/request", post(request).put(valid));
}
