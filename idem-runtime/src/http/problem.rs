//! Refusals as problem details (RFC 9457).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::{InvalidRequest, Refusal};

/// Why a request was refused. Each has a stable `type`, `urn:idem:problem:` and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// 400 `key-missing`: the request has no key.
    KeyMissing,
    /// 400 `key-invalid`: the key breaks the syntax.
    KeyInvalid,
    /// 400 `tenant-invalid`: the caller has no usable identity.
    TenantInvalid,
    /// 422 `request-mismatch`: the key came with another request before.
    RequestMismatch,
    /// 409 `in-progress`: the same request is being processed.
    InProgress,
    /// 409 `response-not-kept`: the request is done, but its response was too large to keep.
    ResponseNotKept,
    /// 409 `needs-reconciliation`: a step may or may not have happened, and an operator has to
    /// find out.
    NeedsReconciliation,
    /// 503 `store-unavailable`: the store does not answer; the handler did not run, or its writes
    /// are rolled back.
    StoreUnavailable,
    /// 503 `transaction-aborted`: the database undid the transaction.
    TransactionAborted,
    /// 503 `outcome-unknown`: the commit got no answer; a retry finds the truth.
    OutcomeUnknown,
    /// 503 `timed-out`: the handler took too long; its writes are rolled back.
    TimedOut,
    /// 503 `shutting-down`: this process takes no new work.
    ShuttingDown,
    /// 500 `handler-panicked`: its writes are rolled back; in leased mode its finished steps stay.
    HandlerPanicked,
    /// 500 `ended-by-handler`: the handler ended the transaction that held its key, or went on after
    /// the database had rolled it back.
    EndedByHandler,
    /// 500 `misconfigured`: an option's value is out of range, or the fingerprint failed.
    Misconfigured,
}

/// What is constant for each kind.
struct Facts {
    name: &'static str,
    status: StatusCode,
    title: &'static str,
    detail: &'static str,
    /// Seconds after which the same request with the same key may succeed.
    retry_after: Option<u32>,
}

impl ProblemKind {
    #[rustfmt::skip] // one line each: a table
    const fn facts(self) -> Facts {
        const fn facts(
            name: &'static str, status: StatusCode, retry_after: Option<u32>,
            title: &'static str, detail: &'static str,
        ) -> Facts {
            Facts { name, status, title, detail, retry_after }
        }
        match self {
            Self::KeyMissing => facts("key-missing", StatusCode::BAD_REQUEST, None,
                "Idempotency key is missing",
                "send a key with each new request, and the same key when you repeat it"),
            Self::KeyInvalid => facts("key-invalid", StatusCode::BAD_REQUEST, None,
                "Idempotency key is invalid",
                "send one key of 1 to 255 visible ASCII characters"),
            Self::TenantInvalid => facts("tenant-invalid", StatusCode::BAD_REQUEST, None,
                "Caller cannot be identified",
                "keys belong to a caller, and this request has none that can be used"),
            Self::RequestMismatch => facts("request-mismatch", StatusCode::UNPROCESSABLE_ENTITY, None,
                "Idempotency key was used for another request",
                "repeat the first request unchanged, or send a new key"),
            Self::InProgress => facts("in-progress", StatusCode::CONFLICT, Some(1),
                "Request is in progress",
                "the first request with this key is still being processed"),
            Self::ResponseNotKept => facts("response-not-kept", StatusCode::CONFLICT, None,
                "Response was not kept",
                "the request was processed, but its response was too large or a stream and cannot be replayed"),
            Self::NeedsReconciliation => facts("needs-reconciliation", StatusCode::CONFLICT, None,
                "Request needs reconciliation",
                "a part of the request may or may not have been done; the operator has to find out"),
            Self::StoreUnavailable => facts("store-unavailable", StatusCode::SERVICE_UNAVAILABLE, Some(5),
                "Idempotency store is unavailable",
                "this attempt did nothing that lasts, though an earlier one may have; repeat it with the same key"),
            Self::TransactionAborted => facts("transaction-aborted", StatusCode::SERVICE_UNAVAILABLE, Some(1),
                "Transaction was aborted",
                "the database undid the request, or was busy; repeat it with the same key"),
            Self::OutcomeUnknown => facts("outcome-unknown", StatusCode::SERVICE_UNAVAILABLE, Some(2),
                "Outcome is unknown",
                "the request may have been done; repeat it with the same key to find out"),
            Self::TimedOut => facts("timed-out", StatusCode::SERVICE_UNAVAILABLE, Some(5),
                "Request took too long",
                "nothing of this request is kept; repeat it with the same key"),
            Self::ShuttingDown => facts("shutting-down", StatusCode::SERVICE_UNAVAILABLE, Some(5),
                "Server is shutting down",
                "nothing was done; repeat the request with the same key"),
            Self::HandlerPanicked => facts("handler-panicked", StatusCode::INTERNAL_SERVER_ERROR, None,
                "Request failed",
                "the request was not finished; repeat it with the same key"),
            Self::EndedByHandler => facts("ended-by-handler", StatusCode::INTERNAL_SERVER_ERROR, None,
                "Request failed",
                "the server could not keep its promise for this request; ask the operator before you repeat it"),
            Self::Misconfigured => facts("misconfigured", StatusCode::INTERNAL_SERVER_ERROR, None,
                "Server is misconfigured",
                "nothing was done; the operator has to look at it"),
        }
    }
}

/// A refusal, rendered as `application/problem+json` unless the handle's builder says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemKind,
    detail: Cow<'static, str>,
}

impl Problem {
    pub(crate) const fn new(kind: ProblemKind) -> Self {
        Self {
            kind,
            detail: Cow::Borrowed(kind.facts().detail),
        }
    }

    /// Returns why the request was refused.
    #[must_use]
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Returns the stable identifier of the kind, the `type` member.
    #[must_use]
    pub fn type_uri(&self) -> String {
        format!("urn:idem:problem:{}", self.kind.facts().name)
    }

    /// Returns the HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.kind.facts().status
    }

    /// Returns the title: the same for each problem of the kind.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        self.kind.facts().title
    }

    /// Returns what is wrong with this request and what the client can do; holds nothing that
    /// the client sent.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the seconds after which a retry makes sense, the `Retry-After` header.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u32> {
        self.kind.facts().retry_after
    }

    /// Returns whether the same request with the same key may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.retry_after().is_some() || matches!(self.kind, ProblemKind::HandlerPanicked)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(match refusal {
            Refusal::InProgress => ProblemKind::InProgress,
            Refusal::Mismatch => ProblemKind::RequestMismatch,
            Refusal::NotKept => ProblemKind::ResponseNotKept,
            Refusal::NeedsReconciliation => ProblemKind::NeedsReconciliation,
            Refusal::ShuttingDown => ProblemKind::ShuttingDown,
            Refusal::StoreUnavailable => ProblemKind::StoreUnavailable,
            Refusal::Aborted => ProblemKind::TransactionAborted,
            Refusal::OutcomeUnknown => ProblemKind::OutcomeUnknown,
            Refusal::TimedOut => ProblemKind::TimedOut,
            Refusal::Panicked => ProblemKind::HandlerPanicked,
            Refusal::EndedByHandler => ProblemKind::EndedByHandler,
        })
    }
}

impl From<InvalidRequest> for Problem {
    fn from(invalid: InvalidRequest) -> Self {
        match &invalid {
            InvalidRequest::KeyMissing => Self::new(ProblemKind::KeyMissing),
            InvalidRequest::Key(why) => Self {
                kind: ProblemKind::KeyInvalid,
                detail: why.to_string().into(),
            },
            InvalidRequest::Tenant(why) => Self {
                kind: ProblemKind::TenantInvalid,
                detail: why.to_string().into(),
            },
            InvalidRequest::Scope | InvalidRequest::Fingerprint(_) | InvalidRequest::Ttl(_) => {
                tracing::error!(error = %invalid, "the request was refused before its key was claimed");
                Self::new(ProblemKind::Misconfigured)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: String,
            title: &'a str,
            status: u16,
            detail: &'a str,
            retryable: bool,
        }
        let body = Body {
            r#type: self.type_uri(),
            title: self.title(),
            status: self.status().as_u16(),
            detail: self.detail(),
            retryable: self.is_retryable(),
        };
        // Strings, a number, and a flag always serialise.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let json = [(header::CONTENT_TYPE, "application/problem+json")];
        with_retry_after((self.status(), json, body).into_response(), &self)
    }
}

/// Renders problems the way the application wants.
#[derive(Clone)]
pub(crate) struct Renderer(Arc<dyn Fn(&Problem) -> Response + Send + Sync>);

impl Renderer {
    pub(crate) fn new(render: impl Fn(&Problem) -> Response + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }

    /// Renders with the hook, if there is one; the retry time is never lost, and a hook that sets no
    /// status makes no success of a refusal.
    pub(crate) fn render(hook: Option<&Self>, problem: Problem) -> Response {
        match hook {
            Some(Self(render)) => {
                let mut response = render(&problem);
                if response.status().is_success() {
                    *response.status_mut() = problem.status();
                }
                with_retry_after(response, &problem)
            }
            None => problem.into_response(),
        }
    }
}

impl fmt::Debug for Renderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renderer(..)")
    }
}

fn with_retry_after(mut response: Response, problem: &Problem) -> Response {
    if let Some(seconds) = problem.retry_after() {
        response
            .headers_mut()
            .entry(header::RETRY_AFTER)
            .or_insert(HeaderValue::from(seconds));
    }
    response
}
