//! The messages of a fresh request in atomic mode, written by hand for one handler: no fingerprint, no
//! replay, no wait, nothing in memory. What it costs is the database's and sqlx's; what idem costs
//! beyond it is idem's own.

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use sqlx::{AssertSqlSafe, PgPool, Row, SqlSafeStr, Transaction};
use uuid::Uuid;

use crate::Failure;
use crate::payments::{Account, ApiError, CreatePayment, pay};

const LOOK_UP: &str = "select current_setting('idem.gate') as gate, k.fingerprint, k.state, \
    k.attempt, k.status, k.headers, k.body, k.created_at as created, k.locked_until, k.expires_at, \
    statement_timestamp() as now \
    from (select 1) as one left join idempotency_keys as k \
    on k.tenant = $1 and k.scope = 'payments.by-hand' and k.key = $2";

const STORE: &str = "insert into idempotency_keys (tenant, scope, key, fingerprint, state, attempt, \
    status, headers, body, created_at, completed_at, expires_at) \
    select $1, 'payments.by-hand', $2, $3, 2, 1, $4, $5, $6, now(), clock_timestamp(), \
    clock_timestamp() + $7 * interval '1 millisecond' \
    where current_setting('idem.gate', true) = 'ours'";

/// Makes the application; the tables are idem's.
///
/// # Errors
/// When the tables cannot be made.
pub async fn app(pool: PgPool) -> Result<Router, Failure> {
    idem_runtime::Idempotency::new(pool.clone())
        .migrate()
        .await?;
    Ok(Router::new()
        .route("/payments", post(payments))
        .with_state(pool))
}

async fn payments(
    State(pool): State<PgPool>,
    account: Account,
    headers: HeaderMap,
    Json(payment): Json<CreatePayment>,
) -> Result<Response, ApiError> {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let Some(key) = key else {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    };
    let tenant = account.0.to_string();
    // The digests of the key and of the request, without the work of making them.
    let (of_key, of_request) = Uuid::new_v4().as_u64_pair();
    let begin = format!(
        "set transaction isolation level read committed, read write; \
         set local statement_timeout = 60000; \
         set local idle_in_transaction_session_timeout = 65000; \
         select set_config('idem.gate', case \
         when not pg_try_advisory_xact_lock({}) then 'same' \
         when not pg_try_advisory_xact_lock({}) then 'other' \
         else 'ours' end, true); begin; savepoint idem_work",
        of_request.cast_signed(),
        of_key.cast_signed(),
    );
    let begin = AssertSqlSafe(begin).into_sql_str();
    let mut tx = Transaction::begin(pool.acquire().await?, Some(begin)).await?;
    let row = sqlx::query(LOOK_UP)
        .bind(&tenant)
        .bind(key)
        .fetch_one(&mut *tx)
        .await?;
    let ours = row.try_get::<&str, _>("gate")? == "ours";
    if !ours || row.try_get::<Option<Vec<u8>>, _>("fingerprint")?.is_some() {
        return Ok(StatusCode::CONFLICT.into_response());
    }
    let paid = pay(&mut tx, &account, &payment).await?;
    let (parts, body) = (StatusCode::CREATED, Json(paid))
        .into_response()
        .into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let headers: Vec<u8> = parts
        .headers
        .iter()
        .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()].concat())
        .collect();
    let stored = sqlx::query(STORE)
        .bind(&tenant)
        .bind(key)
        .bind(&[0_u8; 32][..])
        .bind(parts.status.as_u16().cast_signed())
        .bind(headers)
        .bind(&body[..])
        .bind(86_400_000_i64)
        .execute(&mut *tx)
        .await?;
    if stored.rows_affected() != 1 {
        return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    }
    tx.commit().await?;
    Ok(Response::from_parts(parts, Body::from(body)))
}
