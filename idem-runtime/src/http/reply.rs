//! Responses: what is kept of them, and how they come back.

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};

use crate::engine::Done;
use crate::record::{Disposition, Kept, Record, StoredResponse};

/// A response whose fate the handler decides itself, over what `record` says for its status.
///
/// The writes are those of atomic mode. In leased mode what a finished step has committed stays.
///
/// ```
/// # use axum::http::StatusCode;
/// # use axum::response::IntoResponse;
/// # use idem_runtime::Recorded;
/// fn answer(sold_out: bool) -> impl IntoResponse {
///     if sold_out {
///         // Not a verdict for ever: tomorrow the same request may succeed.
///         return Recorded::release((StatusCode::CONFLICT, "sold out"));
///     }
///     Recorded::keep(StatusCode::CREATED)
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Recorded(Response);

/// The handler's decision, on its way in the response's extensions.
#[derive(Clone, Copy, Debug)]
enum Overrule {
    /// Judged by the status that the response has in the end: `(StatusCode, Recorded)` changes it.
    Keep,
    KeepWithWrites,
    Release,
}

impl Recorded {
    /// Keeps the answer as its status would be kept: a 2xx or 3xx with the handler's writes, any
    /// other without them.
    pub fn keep(response: impl IntoResponse) -> Self {
        Self::overruled(response, Overrule::Keep)
    }

    /// Keeps the answer and commits the handler's writes, whatever the status.
    pub fn keep_with_writes(response: impl IntoResponse) -> Self {
        Self::overruled(response, Overrule::KeepWithWrites)
    }

    /// Rolls the handler's writes back and frees the key, whatever the status: a retry runs again.
    pub fn release(response: impl IntoResponse) -> Self {
        Self::overruled(response, Overrule::Release)
    }

    fn overruled(response: impl IntoResponse, overrule: Overrule) -> Self {
        let mut response = response.into_response();
        response.extensions_mut().insert(overrule);
        Self(response)
    }
}

impl IntoResponse for Recorded {
    fn into_response(self) -> Response {
        self.0
    }
}

/// Decides what becomes of a handler's response and takes it apart for the store.
pub(crate) async fn done(mut response: Response, record: Record, limit: usize) -> Done<Response> {
    let status = response.status().as_u16();
    let disposition = match response.extensions_mut().remove() {
        None => record.disposition(status),
        Some(Overrule::Keep) => Record::All.disposition(status),
        Some(Overrule::KeepWithWrites) => Disposition::KeepWithWrites,
        Some(Overrule::Release) => Disposition::Release,
    };
    if disposition == Disposition::Release {
        return Done {
            value: response,
            disposition,
            kept: Kept::Tombstone,
        };
    }
    let (parts, body) = response.into_parts();
    let (body, kept) = if is_stream(parts.status, &parts.headers) {
        (body, Kept::Tombstone)
    } else {
        match buffer(body, limit).await {
            Ok(Buffered::Whole(bytes)) => {
                let status = parts.status.as_u16();
                let headers = kept_headers(&parts.headers);
                let body = bytes.clone();
                (
                    Body::from(bytes),
                    Kept::Response(StoredResponse {
                        status,
                        headers,
                        body,
                    }),
                )
            }
            Ok(Buffered::NotKept(body)) => (body, Kept::Tombstone),
            Err(error) => {
                tracing::error!(%error, "the handler's response body failed; its writes are rolled back");
                let value = StatusCode::INTERNAL_SERVER_ERROR.into_response();
                return Done {
                    value,
                    disposition: Disposition::Release,
                    kept: Kept::Tombstone,
                };
            }
        }
    };
    Done {
        value: Response::from_parts(parts, body),
        disposition,
        kept,
    }
}

/// Takes apart a response that an operator gives; `None` when it is a stream or fails.
pub(crate) async fn kept(response: Response) -> Option<Kept> {
    let done = done(response, Record::All, usize::MAX).await;
    match (done.disposition, done.kept) {
        (Disposition::Release, _) | (_, Kept::Tombstone) => None,
        (_, kept) => Some(kept),
    }
}

/// Whether a response has no end that one could wait for.
fn is_stream(status: StatusCode, headers: &HeaderMap) -> bool {
    let event_stream = headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        let essence = value
            .as_bytes()
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default();
        essence
            .trim_ascii()
            .eq_ignore_ascii_case(b"text/event-stream")
    });
    status.is_informational() || event_stream
}

enum Buffered {
    /// The whole body, within the limit.
    Whole(Bytes),
    /// A body that is too large, or that ends in trailers; put together again.
    NotKept(Body),
}

/// Reads a body up to the limit; never loses a byte of it.
async fn buffer(mut body: Body, limit: usize) -> Result<Buffered, axum::Error> {
    if body.size_hint().lower() > limit as u64 {
        return Ok(Buffered::NotKept(body));
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await.transpose()? {
        let frame = match frame.into_data() {
            Ok(data) if read.is_empty() && body.is_end_stream() && data.len() <= limit => {
                // The usual body is one frame; it need not be copied.
                return Ok(Buffered::Whole(data));
            }
            Ok(data) if read.len() + data.len() <= limit => {
                read.extend_from_slice(&data);
                continue;
            }
            Ok(data) => Frame::data(data),
            Err(trailers) => trailers,
        };
        let first = stream::iter([Ok(Frame::data(read.freeze())), Ok(frame)]);
        let rest = first.chain(BodyStream::new(body));
        return Ok(Buffered::NotKept(Body::new(StreamBody::new(rest))));
    }
    Ok(Buffered::Whole(read.freeze()))
}

/// Fields that belong to one exchange, or that would give the caller's secrets to whoever knows
/// the key: never stored. Hop-by-hop fields are those of RFC 9110 section 7.6.1.
const NEVER_STORED: &[&str] = &[
    "set-cookie",
    "date",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "authorization",
    "proxy-authorization",
    "www-authenticate",
    "proxy-authenticate",
    "authentication-info",
    "proxy-authentication-info",
    REPLAYED,
];

/// Marks a replay.
const REPLAYED: &str = "idempotent-replayed";

fn kept_headers(headers: &HeaderMap) -> Vec<(Bytes, Bytes)> {
    // A `Connection` field may name further fields of this hop.
    let nominated: Vec<&[u8]> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    headers
        .iter()
        .filter(|(name, _)| !NEVER_STORED.contains(&name.as_str()))
        .filter(|(name, _)| {
            !nominated
                .iter()
                .any(|token| token.eq_ignore_ascii_case(name.as_ref()))
        })
        .map(|(name, value)| {
            (
                Bytes::copy_from_slice(name.as_ref()),
                Bytes::copy_from_slice(value.as_bytes()),
            )
        })
        .collect()
}

/// Builds the response of a replay; `None` when what is stored is no response, as after a change
/// by hand.
pub(crate) fn replay(stored: &StoredResponse) -> Option<Response> {
    let mut response = Response::new(Body::from(stored.body.clone()));
    *response.status_mut() = StatusCode::from_u16(stored.status).ok()?;
    for (name, value) in &stored.headers {
        let name = HeaderName::from_bytes(name).ok()?;
        let value = HeaderValue::from_maybe_shared(value.clone()).ok()?;
        // There is a number of them above which a map of headers panics.
        response.headers_mut().try_append(name, value).ok()?;
    }
    let mark = HeaderValue::from_static("true");
    response.headers_mut().try_insert(REPLAYED, mark).ok()?;
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_headers_than_a_response_has_are_refused() {
        let stored = |count: u32| StoredResponse {
            status: 200,
            headers: (0..count)
                .map(|n| (format!("x-{n}").into(), Bytes::new()))
                .collect(),
            body: Bytes::new(),
        };
        assert!(replay(&stored(20_000)).is_some());
        assert!(replay(&stored(30_000)).is_none());
    }
}
