//! The handlers of the test application, one for each way to use the attribute.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use idem_runtime::{Backend, Idempotency};

use crate::script::Script;

/// The state of the test application's router.
#[derive(Debug)]
pub(crate) struct AppState<DB: Backend> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) script: Script,
}

impl<DB: Backend> Clone for AppState<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            script: self.script.clone(),
        }
    }
}

/// Who asks, what for, and what the handler does then.
pub(crate) struct Caller {
    pub(crate) account: String,
    pub(crate) label: String,
    pub(crate) script: Script,
}

impl<DB: Backend> FromRequestParts<AppState<DB>> for Caller {
    type Rejection = StatusCode;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &AppState<DB>,
    ) -> Result<Self, StatusCode> {
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let credentials = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        match credentials.and_then(|token| token.rsplit_once('/')) {
            None | Some((_, "0")) => Err(StatusCode::UNAUTHORIZED),
            Some((account, _)) => Ok(Self {
                account: account.to_owned(),
                label: header("x-label").unwrap_or_default().to_owned(),
                script: state.script.clone(),
            }),
        }
    }
}

/// What handlers without a caller do.
pub(crate) struct Anonymous(pub(crate) Script);

impl<DB: Backend> FromRequestParts<AppState<DB>> for Anonymous {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &AppState<DB>) -> Result<Self, Infallible> {
        Ok(Self(state.script.clone()))
    }
}

/// Stamps the same handlers onto a database.
macro_rules! stamp {
    ($module:ident, $database:ident, $connection:ident) => {
        pub(crate) mod $module {
            use axum::extract::{Form, FromRef, Multipart};
            use axum::http::StatusCode;
            use axum::response::{IntoResponse, Response};
            use axum::routing::{any, post};
            use axum::{Json, Router};
            use bytes::Bytes;
            use idem_runtime::outbox::{self, Message};
            use idem_runtime::{Claim, Idempotency, Recorded, idempotent};
            use sqlx::{$connection, $database, Connection, Transaction};

            use super::{Anonymous, AppState, Caller};
            use crate::script::Script;

            type Store = Idempotency<$database>;

            impl FromRef<AppState<$database>> for Store {
                fn from_ref(state: &AppState<$database>) -> Self {
                    state.idempotency.clone()
                }
            }

            async fn perform(
                script: &Script,
                tx: &mut $connection,
                account: &str,
                label: &str,
            ) -> Response {
                let insert = "insert into effects (account, label) values ($1, $2) returning id";
                let effect = sqlx::query_scalar(insert).bind(account).bind(label);
                let Ok(effect) = effect.fetch_one(&mut *tx).await else {
                    return StatusCode::SERVICE_UNAVAILABLE.into_response();
                };
                for statement in script.current_statements() {
                    // As a handler that swallows its errors.
                    let _ = sqlx::raw_sql(statement).execute(&mut *tx).await;
                }
                script.gate.pass().await;
                script.response(effect)
            }

            async fn serve(caller: &Caller, tx: &mut $connection) -> Response {
                perform(&caller.script, tx, &caller.account, &caller.label).await
            }

            #[idempotent(scope = "effects", tenant = caller.account)]
            async fn write(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            /// Tells of its effect in a message, which names account and label.
            #[idempotent(scope = "effects.told", tenant = caller.account)]
            async fn tell(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                let message = Message {
                    topic: "effects".to_owned(),
                    payload: format!("{}/{}", caller.account, caller.label).into(),
                    ..Message::default()
                };
                match outbox::publish(&mut *tx, message).await {
                    Ok(_) => serve(&caller, tx).await,
                    Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
                }
            }

            #[idempotent(scope = "effects.other", tenant = caller.account)]
            async fn other_scope(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.bodiless", tenant = caller.account)]
            async fn bodiless(caller: Caller, tx: &mut $connection) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.json", tenant = caller.account)]
            async fn json(
                caller: Caller,
                tx: &mut $connection,
                Json(_): Json<serde_json::Value>,
            ) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.form", tenant = caller.account)]
            async fn form(
                caller: Caller,
                tx: &mut $connection,
                Form(_): Form<Vec<(String, String)>>,
            ) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.multipart", tenant = caller.account)]
            async fn multipart(
                caller: Caller,
                tx: &mut $connection,
                mut parts: Multipart,
            ) -> Response {
                while let Ok(Some(_)) = parts.next_field().await {}
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.shared", tenant = shared)]
            async fn shared(tx: &mut $connection, Anonymous(script): Anonymous) -> Response {
                perform(&script, tx, "", "").await
            }

            #[idempotent(scope = "effects.optional", tenant = caller.account, required = false)]
            async fn optional(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.patient", tenant = caller.account, wait = "60s")]
            async fn patient(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.hasty", tenant = caller.account, timeout = "2s")]
            async fn hasty(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.success", tenant = caller.account, record = "success")]
            async fn success(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.all", tenant = caller.account, record = "all")]
            async fn all(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.small", tenant = caller.account, max_response = "1KiB")]
            async fn small(caller: Caller, tx: &mut $connection, _body: Bytes) -> Response {
                serve(&caller, tx).await
            }

            #[idempotent(
                scope = "effects.webhook",
                tenant = shared,
                key = header("webhook-id"),
                ttl = "14d"
            )]
            async fn webhook(
                Anonymous(script): Anonymous,
                tx: &mut $connection,
                _body: Bytes,
            ) -> Response {
                perform(&script, tx, "", "").await
            }

            #[derive(serde::Deserialize)]
            struct Event {
                id: String,
                amount: Option<u64>,
            }

            #[idempotent(scope = "effects.event", tenant = caller.account, key = event.id)]
            async fn event(
                caller: Caller,
                tx: &mut $connection,
                Json(event): Json<Event>,
            ) -> Response {
                let _ = event.id;
                serve(&caller, tx).await
            }

            #[idempotent(
                scope = "effects.amount",
                tenant = caller.account,
                fingerprint = (event.id, event.amount)
            )]
            async fn amount(
                caller: Caller,
                tx: &mut $connection,
                Json(event): Json<Event>,
            ) -> Response {
                let _ = event.amount;
                serve(&caller, tx).await
            }

            #[idempotent(scope = "effects.elsewhere", tenant = caller.account, store = found.0)]
            async fn elsewhere(
                caller: Caller,
                axum::Extension(found): axum::Extension<Found>,
                tx: &mut $connection,
            ) -> Response {
                serve(&caller, tx).await
            }

            #[derive(Clone)]
            struct Found(Store);

            #[idempotent(scope = "effects.claim", tenant = caller.account)]
            async fn claim(claim: &Claim, caller: Caller, tx: &mut $connection) -> Response {
                serve(&caller, tx).await;
                let derived = |label| claim.derive_key(label).to_string();
                let facts = serde_json::json!({
                    "key": claim.key(),
                    "scope": claim.scope(),
                    "tenant": claim.tenant(),
                    "attempt": claim.attempt(),
                    "derived": [derived("charge"), derived("refund")],
                });
                Json(facts).into_response()
            }

            /// Writes one effect in a nested transaction that it commits, and one in a nested
            /// transaction that it rolls back.
            #[idempotent(scope = "effects.nested", tenant = caller.account)]
            async fn nested(
                caller: Caller,
                tx: &mut Transaction<'_, $database>,
            ) -> Result<Response, NoDatabase> {
                let mut kept = tx.begin().await?;
                let response = serve(&caller, &mut kept).await;
                kept.commit().await?;
                let mut undone = tx.begin().await?;
                serve(&caller, &mut undone).await;
                undone.rollback().await?;
                Ok(response)
            }

            /// Begins a nested transaction after its writes, and answers whether it can or not.
            #[idempotent(scope = "effects.nested-late", tenant = caller.account)]
            async fn nested_late(
                caller: Caller,
                tx: &mut Transaction<'_, $database>,
            ) -> Response {
                let response = serve(&caller, tx).await;
                drop(tx.begin().await);
                response
            }

            struct NoDatabase;

            impl From<sqlx::Error> for NoDatabase {
                fn from(_: sqlx::Error) -> Self {
                    Self
                }
            }

            impl IntoResponse for NoDatabase {
                fn into_response(self) -> Response {
                    StatusCode::INTERNAL_SERVER_ERROR.into_response()
                }
            }

            #[idempotent(scope = "effects.kept", tenant = caller.account)]
            async fn keep(caller: Caller, tx: &mut $connection) -> Result<Recorded, NoDatabase> {
                Ok(Recorded::keep(serve(&caller, tx).await))
            }

            #[idempotent(scope = "effects.kept-as-conflict", tenant = caller.account)]
            async fn keep_as_conflict(
                caller: Caller,
                tx: &mut $connection,
            ) -> (StatusCode, Recorded) {
                (StatusCode::CONFLICT, Recorded::keep(serve(&caller, tx).await))
            }

            #[idempotent(scope = "effects.kept-with-writes", tenant = caller.account)]
            async fn keep_with_writes(caller: Caller, tx: &mut $connection) -> Recorded {
                Recorded::keep_with_writes(serve(&caller, tx).await)
            }

            #[idempotent(scope = "effects.released", tenant = caller.account)]
            async fn release(caller: Caller, tx: &mut $connection) -> Recorded {
                Recorded::release(serve(&caller, tx).await)
            }

            /// Routes every handler; the first one under two prefixes as well.
            pub(crate) fn router(state: AppState<$database>) -> Router {
                let nested_twice = Router::new().route("/effects", any(write));
                let elsewhere = post(elsewhere).layer(axum::Extension(Found(state.idempotency.clone())));
                Router::new()
                    .merge(nested_twice.clone())
                    .nest("/one", nested_twice.clone())
                    .nest("/two", nested_twice)
                    .route("/effects/other-path", post(write))
                    .route("/told", post(tell))
                    .route("/other-scope", post(other_scope))
                    .route("/bodiless", post(bodiless))
                    .route("/json", post(json))
                    .route("/form", post(form))
                    .route("/multipart", post(multipart))
                    .route("/shared", post(shared))
                    .route("/optional", post(optional))
                    .route("/patient", post(patient))
                    .route("/hasty", post(hasty))
                    .route("/success", post(success))
                    .route("/all", post(all))
                    .route("/small", post(small))
                    .route("/webhook", post(webhook))
                    .route("/event", post(event))
                    .route("/amount", post(amount))
                    .route("/elsewhere", elsewhere)
                    .route("/claim", post(claim))
                    .route("/nested", post(nested))
                    .route("/nested-late", post(nested_late))
                    .route("/keep", post(keep))
                    .route("/keep-as-conflict", post(keep_as_conflict))
                    .route("/keep-with-writes", post(keep_with_writes))
                    .route("/release", post(release))
                    .with_state(state)
            }
        }
    };
}

stamp!(postgres, Postgres, PgConnection);
stamp!(sqlite, Sqlite, SqliteConnection);
