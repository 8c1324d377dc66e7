//! The application without idem: the limit, and the pattern that people write by hand.

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use sqlx::{PgConnection, PgPool, Postgres, Row, Transaction};

use crate::payments::{Account, ApiError, CreatePayment, Payment, pay, transfer};

/// The limit: the handler in its own transaction, and nothing else.
pub fn limit(pool: PgPool) -> Router {
    async fn payments(
        State(pool): State<PgPool>,
        account: Account,
        Json(payment): Json<CreatePayment>,
    ) -> Result<(StatusCode, Json<Payment>), ApiError> {
        let mut tx = pool.begin().await?;
        let paid = pay(&mut tx, &account, &payment).await?;
        tx.commit().await?;
        Ok((StatusCode::CREATED, Json(paid)))
    }

    async fn transfers(
        State(pool): State<PgPool>,
        account: Account,
        Json(payment): Json<CreatePayment>,
    ) -> Result<(StatusCode, Json<Payment>), ApiError> {
        let mut tx = pool.begin().await?;
        let paid = transfer(&mut tx, &account, &payment).await?;
        tx.commit().await?;
        Ok((StatusCode::CREATED, Json(paid)))
    }

    Router::new()
        .route("/payments", post(payments))
        .route("/transfers", post(transfers))
        .route("/nothing", post(|| async { StatusCode::CREATED }))
        .with_state(pool)
}

/// The pattern of the book "Zero To Production In Rust", written from its description: insert a
/// row that says "in progress", work, update the row with the response, commit. Who loses the
/// insert waits on the unique index, on its connection, and reads the saved response.
pub fn zero2prod(pool: PgPool) -> Router {
    async fn payments(
        State(pool): State<PgPool>,
        account: Account,
        headers: HeaderMap,
        Json(payment): Json<CreatePayment>,
    ) -> Result<Response, ApiError> {
        let (key, mut tx) = match try_processing(&pool, &account, &headers).await? {
            Next::Start(key, tx) => (key, tx),
            Next::Answer(response) => return Ok(response),
        };
        let paid = pay(&mut tx, &account, &payment).await?;
        save(
            tx,
            &account,
            &key,
            (StatusCode::CREATED, Json(paid)).into_response(),
        )
        .await
    }

    async fn transfers(
        State(pool): State<PgPool>,
        account: Account,
        headers: HeaderMap,
        Json(payment): Json<CreatePayment>,
    ) -> Result<Response, ApiError> {
        let (key, mut tx) = match try_processing(&pool, &account, &headers).await? {
            Next::Start(key, tx) => (key, tx),
            Next::Answer(response) => return Ok(response),
        };
        let paid = transfer(&mut tx, &account, &payment).await?;
        save(
            tx,
            &account,
            &key,
            (StatusCode::CREATED, Json(paid)).into_response(),
        )
        .await
    }

    Router::new()
        .route("/payments", post(payments))
        .route("/transfers", post(transfers))
        .with_state(pool)
}

enum Next {
    Start(String, Transaction<'static, Postgres>),
    Answer(Response),
}

async fn try_processing(
    pool: &PgPool,
    account: &Account,
    headers: &HeaderMap,
) -> Result<Next, sqlx::Error> {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let Some(key) = key.filter(|key| !key.is_empty() && key.len() < 50) else {
        return Ok(Next::Answer(StatusCode::BAD_REQUEST.into_response()));
    };
    let mut tx = pool.begin().await?;
    let inserted = sqlx::query(
        "insert into saved (user_id, idempotency_key, created_at) values ($1, $2, now()) \
         on conflict do nothing",
    )
    .bind(account.0)
    .bind(key)
    .execute(&mut *tx)
    .await?;
    if inserted.rows_affected() > 0 {
        return Ok(Next::Start(key.to_owned(), tx));
    }
    let row = sqlx::query(
        "select response_status_code, response_headers::text as headers, response_body \
         from saved where user_id = $1 and idempotency_key = $2",
    )
    .bind(account.0)
    .bind(key)
    .fetch_one(&mut *tx)
    .await?;
    Ok(Next::Answer(saved(&row).unwrap_or_else(|| {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    })))
}

fn saved(row: &sqlx::postgres::PgRow) -> Option<Response> {
    let status: i16 = row.try_get("response_status_code").ok()?;
    let headers: String = row.try_get("headers").ok()?;
    let body: Vec<u8> = row.try_get("response_body").ok()?;
    let headers: Vec<(String, Vec<u8>)> = serde_json::from_str(&headers).ok()?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(u16::try_from(status).ok()?).ok()?;
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        response
            .headers_mut()
            .append(name, HeaderValue::from_bytes(&value).ok()?);
    }
    Some(response)
}

async fn save(
    mut tx: Transaction<'static, Postgres>,
    account: &Account,
    key: &str,
    response: Response,
) -> Result<Response, ApiError> {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let headers: Vec<(&str, &[u8])> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    store(
        &mut tx,
        account,
        key,
        parts.status,
        &serde_json::to_string(&headers).unwrap_or_default(),
        &body,
    )
    .await?;
    tx.commit().await?;
    Ok(Response::from_parts(parts, Body::from(body)))
}

async fn store(
    tx: &mut PgConnection,
    account: &Account,
    key: &str,
    status: StatusCode,
    headers: &str,
    body: &[u8],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update saved set response_status_code = $3, response_headers = $4::jsonb, \
         response_body = $5 where user_id = $1 and idempotency_key = $2",
    )
    .bind(account.0)
    .bind(key)
    .bind(status.as_u16().cast_signed())
    .bind(headers)
    .bind(body)
    .execute(tx)
    .await?;
    Ok(())
}
