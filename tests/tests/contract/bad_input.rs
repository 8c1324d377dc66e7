//! Nothing that a client sends makes the server panic, hang, or keep it.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::map_request;
use http_body_util::Limited;
use idem_tests::wire::{Wire, post};
use idem_tests::{Kind, Setup, TestApp};
use uuid::Uuid;

stamp!(
    random_bytes_as_a_key_give_a_4xx_or_a_key,
    deep_and_huge_json_gives_an_answer_in_bounded_work,
    malformed_bodies_of_every_type_are_rejected_or_served,
    a_body_over_the_limit_is_refused_and_nothing_is_stored,
    a_body_over_the_limit_of_a_layer_is_too_large,
    a_body_that_breaks_off_stores_nothing,
);

fn random_bytes(count: usize) -> Vec<u8> {
    std::iter::repeat_with(|| *Uuid::new_v4().as_bytes())
        .flatten()
        .take(count)
        .collect()
}

async fn random_bytes_as_a_key_give_a_4xx_or_a_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    let mut runs = 0;
    for length in (0..64).chain([255, 256, 1000, 8000]) {
        let mut key = random_bytes(length);
        key.retain(|byte| !matches!(byte, b'\r' | b'\n'));
        let request = post("/effects", &[("idempotency-key", &key)], b"");
        let answer = Wire::send(app.address, &request).await.answer().await;
        match answer.get(9..12) {
            Some("201") => runs += 1,
            Some(status) if status.starts_with('4') => {}
            _ => panic!("{key:?}: {answer}"),
        }
    }
    assert_eq!(app.keys().await, runs);
    assert_eq!(app.effects().await, runs);
}

async fn deep_and_huge_json_gives_an_answer_in_bounded_work(kind: Kind) {
    let app = TestApp::start(kind).await;
    let bodies = [
        "[".repeat(1_000_000),
        format!("{}{}", "[".repeat(500_000), "]".repeat(500_000)),
        "{\"a\":".repeat(300_000),
        format!("[1e{}]", "9".repeat(100_000)),
        format!("[{}]", "9".repeat(1_000_000)),
        format!("[0.{}1e-{}]", "0".repeat(500_000), i64::MAX),
        format!("{{{}\"z\":1}}", "\"a\":1,".repeat(200_000)),
        format!("\"{}\"", "\\u0041".repeat(150_000)),
        "\"\\ud800\"".to_owned(),
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        let key = at.to_string();
        let first = app.post("/effects").key(&key).json(body.clone()).await;
        assert_eq!(first.status, 201, "body {at}");
        app.post("/effects")
            .key(&key)
            .json(body.clone())
            .await
            .assert_replays(&first);
        let rejected = app.post("/json").key(&key).json(body).await;
        assert!(rejected.status < 500, "body {at}: {rejected:?}");
    }
}

async fn malformed_bodies_of_every_type_are_rejected_or_served(kind: Kind) {
    let app = TestApp::start(kind).await;
    let types = [
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=b",
        "text/plain; charset=\"",
        "/",
        "\u{7f}".trim_end_matches('\u{7f}'),
    ];
    let mut bodies: Vec<Vec<u8>> = (0..20).map(|length| random_bytes(length * 7)).collect();
    bodies.extend([
        b"--b\r\n\r\n".to_vec(),
        b"--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx".to_vec(),
        b"--b--".to_vec(),
        b"%".to_vec(),
        b"%zz=%".to_vec(),
        b"&&&=".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
    ]);
    for path in ["/effects", "/json", "/form", "/multipart"] {
        for content_type in types {
            for body in &bodies {
                let key = Uuid::new_v4().to_string();
                let request = app
                    .post(path)
                    .key(&key)
                    .header("content-type", content_type);
                let answer = request.body(body.clone()).await;
                assert!(
                    answer.status < 500,
                    "{path} {content_type:?} {body:?}: {answer:?}"
                );
            }
        }
    }
}

async fn a_body_over_the_limit_is_refused_and_nothing_is_stored(kind: Kind) {
    let app = TestApp::start(kind).await;
    let too_large = vec![b' '; 2 * 1024 * 1024 + 1];
    for (path, content_type) in [
        ("/effects", "application/octet-stream"),
        ("/json", "application/json"),
        ("/form", "application/x-www-form-urlencoded"),
        // It reads nothing before the handler runs.
        ("/multipart", "multipart/form-data; boundary=b"),
    ] {
        let request = app.post(path).key("k").header("content-type", content_type);
        let answer = request.body(too_large.clone()).await;
        assert_eq!(answer.status, 413, "{path}: {answer:?}");
    }
    app.assert_untouched().await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
}

/// As `RequestBodyLimitLayer` of tower-http does to a body that does not say how long it is.
async fn a_body_over_the_limit_of_a_layer_is_too_large(kind: Kind) {
    let setup = Setup {
        layers: |router| router.layer(map_request(limited)),
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    for (path, content_type) in [
        ("/effects", &b"application/octet-stream"[..]),
        ("/json", b"application/json"),
        ("/form", b"application/x-www-form-urlencoded"),
    ] {
        let headers = [
            ("idempotency-key", &b"k"[..]),
            ("content-type", content_type),
        ];
        let head = String::from_utf8(post(path, &headers, b"")).expect("a request");
        let head = head.replace("content-length: 0", "transfer-encoding: chunked");
        let request = format!("{head}c8\r\n{}\r\n0\r\n\r\n", " ".repeat(0xc8));
        let answer = Wire::send(app.address, request.as_bytes())
            .await
            .answer()
            .await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
    }
    app.assert_untouched().await;
}

async fn limited(request: Request) -> Request {
    request.map(|body| Body::new(Limited::new(body, 100)))
}

async fn a_body_that_breaks_off_stores_nothing(kind: Kind) {
    let app = TestApp::start(kind).await;
    let mut request = post("/effects", &[("idempotency-key", b"k")], b"all of it");
    request.truncate(request.len() - 3);
    let mut client = Wire::send(app.address, &request).await;
    client.half_close().await;
    // It may get a 4xx or nothing.
    let answer = client.answer().await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    app.assert_untouched().await;
    assert_eq!(app.script.gate.arrived(), 0);
}
