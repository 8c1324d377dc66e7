//! What is stored of an answer, and how it comes back.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use axum::middleware::map_response;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use idem_tests::{Answer, Kind, Setup, TestApp};
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;

stamp!(
    status_location_and_body_come_back,
    repeated_and_binary_header_values_come_back_in_order,
    what_belongs_to_one_answer_only_does_not_come_back,
    any_body_comes_back_byte_for_byte,
    an_answer_without_a_body_stays_without,
    a_streamed_body_within_the_limit_comes_back,
    an_answer_at_the_limit_is_kept_and_one_above_it_is_not,
    a_refusal_above_the_limit_is_not_kept,
    a_streamed_body_above_the_limit_reaches_the_client_whole,
    an_answer_with_trailers_is_not_kept,
    a_body_that_fails_is_no_answer,
    an_event_stream_is_not_kept,
    an_upgrade_is_not_kept,
    what_outer_layers_add_is_added_to_each_answer_afresh,
    a_replay_is_compressed_once,
);

/// Sends the same request twice.
async fn twice(app: &TestApp, path: &str) -> (Answer, Answer) {
    (app.post(path).key("k").await, app.post(path).key("k").await)
}

async fn status_location_and_body_come_back(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| {
        let headers = [
            ("location", "/effects/7"),
            ("content-type", "text/x-custom"),
        ];
        (
            StatusCode::NON_AUTHORITATIVE_INFORMATION,
            headers,
            "made elsewhere",
        )
    });
    let (first, retry) = twice(&app, "/effects").await;
    retry.assert_replays(&first);
    assert_eq!(retry.status, 203);
    assert_eq!(retry.headers["location"], "/effects/7");
    assert_eq!(retry.headers["content-type"], "text/x-custom");
    assert_eq!(&retry.body[..], b"made elsewhere");
}

fn with_headers(lines: &[(&'static str, &[u8])]) -> Response<Body> {
    let mut response = Response::new(Body::from("body"));
    for (name, value) in lines {
        let value = HeaderValue::from_bytes(value).expect("a header value");
        response
            .headers_mut()
            .append(HeaderName::from_static(name), value);
    }
    response
}

async fn repeated_and_binary_header_values_come_back_in_order(kind: Kind) {
    const LINES: [(&str, &[u8]); 5] = [
        ("link", b"</2>; rel=next"),
        ("link", b"</1>; rel=prev"),
        ("link", b"</2>; rel=next"),
        ("x-empty", b""),
        ("x-obs-text", b"caf\xe9 \xff"),
    ];
    let app = TestApp::start(kind).await;
    app.script.answer(|| with_headers(&LINES));
    let (first, retry) = twice(&app, "/effects").await;
    retry.assert_replays(&first);
    let links: Vec<_> = retry
        .headers
        .get_all("link")
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    assert_eq!(links, [LINES[0].1, LINES[1].1, LINES[2].1]);
    assert_eq!(retry.headers["x-obs-text"].as_bytes(), LINES[4].1);
    assert_eq!(retry.headers["x-empty"].as_bytes(), b"");
}

async fn what_belongs_to_one_answer_only_does_not_come_back(kind: Kind) {
    const ONCE: [&str; 12] = [
        "set-cookie",
        "authorization",
        "proxy-authenticate",
        "proxy-authorization",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "proxy-connection",
        "www-authenticate",
        "authentication-info",
        "proxy-authentication-info",
    ];
    let app = TestApp::start(kind).await;
    app.script.answer(|| {
        let mut response = with_headers(&ONCE.map(|name| (name, &b"secret"[..])));
        response
            .headers_mut()
            .append("set-cookie", HeaderValue::from_static("secret=2"));
        response
            .headers_mut()
            .insert("date", HeaderValue::from_static("the first day"));
        response
            .headers_mut()
            .insert("x-stays", HeaderValue::from_static("here"));
        // What the field `connection` names is of this hop too.
        for (name, value) in [("connection", "x-Hop"), ("x-hop", "secret")] {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    });
    let (first, retry) = twice(&app, "/effects").await;
    assert_eq!(first.headers.get_all("set-cookie").iter().count(), 2);
    assert!(retry.is_replay());
    for name in ONCE.into_iter().chain(["connection", "x-hop"]) {
        assert!(!retry.headers.contains_key(name), "{name} came back");
    }
    assert_ne!(retry.headers["date"], "the first day");
    assert_eq!(retry.headers["content-length"], "4");
    assert_eq!(retry.headers["x-stays"], "here");

    let hidden = if kind.is_sqlite() {
        "instr(headers, 'secret')"
    } else {
        "position('secret'::bytea in headers)"
    };
    let found = format!("select coalesce(sum({hidden}), 0) from idempotency_keys");
    assert_eq!(
        app.database.number(&found).await,
        0,
        "stored though it never comes back"
    );
}

async fn any_body_comes_back_byte_for_byte(kind: Kind) {
    let app = TestApp::start(kind).await;
    let every_byte: Vec<u8> = (0..=255).chain([0, 0, 0]).collect();
    let large = Bytes::from(every_byte.repeat(4_000));
    for (key, body) in [("bytes", Bytes::from(every_byte)), ("large", large)] {
        let answer = body.clone();
        app.script.answer(move || answer.clone());
        let first = app.post("/effects").key(key).await;
        assert_eq!(first.body, body);
        app.post("/effects").key(key).await.assert_replays(&first);
    }
}

async fn an_answer_without_a_body_stays_without(kind: Kind) {
    let app = TestApp::start(kind).await;
    let statuses = [
        StatusCode::OK,
        StatusCode::NO_CONTENT,
        StatusCode::NOT_MODIFIED,
    ];
    for status in statuses {
        app.script.answer(move || status);
        let first = app.post("/effects").key(status.as_str()).await;
        let retry = app.post("/effects").key(status.as_str()).await;
        retry.assert_replays(&first);
        assert!(retry.body.is_empty(), "{retry:?}");
    }
}

fn streamed(chunks: usize, size: usize) -> Body {
    let chunk = Bytes::from(vec![b'x'; size]);
    let chunks = (0..chunks).map(move |_| Ok::<_, std::io::Error>(chunk.clone()));
    Body::from_stream(futures_util::stream::iter(chunks))
}

async fn a_streamed_body_within_the_limit_comes_back(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| streamed(8, 128));
    let (first, retry) = twice(&app, "/small").await;
    assert_eq!(first.body.len(), 1024);
    assert!(retry.is_replay());
    assert_eq!(retry.body, first.body);
}

/// Asserts that the client got this much, that the effect stands, and that no retry runs again.
async fn assert_not_kept(app: &TestApp, path: &str, length: usize) {
    let (first, retry) = twice(app, path).await;
    assert_eq!((first.status, first.body.len()), (200, length));
    retry.assert_refused(409, "response-not-kept");
    assert!(!retry.refusal().retryable);
    assert_eq!((app.effects().await, app.keys().await), (1, 1));
    assert_eq!(app.script.gate.arrived(), 1);

    app.post(path)
        .key("k")
        .body("another")
        .await
        .assert_refused(422, "request-mismatch");
}

async fn an_answer_at_the_limit_is_kept_and_one_above_it_is_not(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| vec![b'x'; 1024]);
    let at_limit = app.post("/small").key("limit").await;
    app.post("/small")
        .key("limit")
        .await
        .assert_replays(&at_limit);

    let app = TestApp::start(kind).await;
    app.script.answer(|| vec![b'x'; 1025]);
    assert_not_kept(&app, "/small", 1025).await;
}

/// Its writes are gone, as with any refusal that is kept, and nobody is told that it was done.
async fn a_refusal_above_the_limit_is_not_kept(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script
        .answer(|| (StatusCode::PAYMENT_REQUIRED, vec![b'x'; 1025]));
    let (first, retry) = twice(&app, "/small").await;
    assert_eq!((first.status, first.body.len()), (402, 1025));
    retry.assert_refused(409, "response-not-kept");
    let detail = String::from_utf8_lossy(&retry.body).into_owned();
    assert!(!detail.contains("done"), "{detail}");
    assert_eq!((app.effects().await, app.keys().await), (0, 1));
    assert_eq!(app.script.gate.arrived(), 1);
}

async fn a_streamed_body_above_the_limit_reaches_the_client_whole(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| streamed(100, 1000));
    assert_not_kept(&app, "/small", 100_000).await;
}

/// A record has no place for them.
async fn an_answer_with_trailers_is_not_kept(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| {
        let trailers = async { Some(Ok(HeaderMap::new())) };
        Body::new(Full::new(Bytes::from("body")).with_trailers(trailers))
    });
    assert_not_kept(&app, "/effects", 4).await;
}

async fn a_body_that_fails_is_no_answer(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| {
        let chunks = [Ok("the beginning"), Err(std::io::Error::other("no end"))];
        Body::from_stream(futures_util::stream::iter(chunks))
    });
    let failed = app.post("/effects").key("k").await;
    assert_eq!((failed.status, failed.body.len()), (500, 0));
    app.assert_untouched().await;
    app.script.answer(|| StatusCode::CREATED);
    let retry = app.post("/effects").key("k").await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
}

async fn an_event_stream_is_not_kept(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| {
        (
            [("content-type", "text/event-stream; charset=utf-8")],
            "data: 1\n\n",
        )
    });
    assert_not_kept(&app, "/effects", 9).await;
}

async fn an_upgrade_is_not_kept(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.answer(|| {
        let headers = [("connection", "upgrade"), ("upgrade", "echo")];
        (StatusCode::SWITCHING_PROTOCOLS, headers)
    });
    let first = app.post("/effects").key("k");
    let first = first
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .await;
    assert_eq!(first.status, 101);
    app.post("/effects")
        .key("k")
        .await
        .assert_refused(409, "response-not-kept");
    assert_eq!(app.effects().await, 1);
}

fn request_ids_and_cors(router: Router) -> Router {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let with_id = map_response(async |mut response: Response<Body>| {
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        response
            .headers_mut()
            .append("x-request-id", HeaderValue::from(id));
        response
    });
    router.layer(with_id).layer(CorsLayer::permissive())
}

async fn what_outer_layers_add_is_added_to_each_answer_afresh(kind: Kind) {
    let app = TestApp::with(
        kind,
        Setup {
            layers: request_ids_and_cors,
            ..Setup::default()
        },
    )
    .await;
    let (first, retry) = twice(&app, "/effects").await;
    assert!(retry.is_replay());
    assert_eq!(retry.body, first.body);
    assert_ne!(retry.headers["x-request-id"], first.headers["x-request-id"]);
    for name in ["x-request-id", "access-control-allow-origin"] {
        assert_eq!(
            retry.headers.get_all(name).iter().count(),
            1,
            "{name} in {retry:?}"
        );
    }
}

async fn a_replay_is_compressed_once(kind: Kind) {
    let layers = |router: Router| router.layer(CompressionLayer::new());
    let app = TestApp::with(
        kind,
        Setup {
            layers,
            ..Setup::default()
        },
    )
    .await;
    app.script.answer(|| "compresses well ".repeat(500));
    let gzip = || {
        app.post("/effects")
            .key("k")
            .header("accept-encoding", "gzip")
    };
    let (first, retry) = (gzip().await, gzip().await);
    assert_eq!(first.headers["content-encoding"], "gzip");
    assert!(retry.is_replay());
    assert_eq!(retry.headers.get_all("content-encoding").iter().count(), 1);
    assert_eq!(retry.body, first.body);

    // A client that wants it plain gets it plain.
    let plain = app.post("/effects").key("k").await;
    assert!(
        plain.is_replay() && !plain.headers.contains_key("content-encoding"),
        "{plain:?}"
    );
    assert_eq!(plain.body, "compresses well ".repeat(500));
}
