//! Which requests count as the same.

use axum::http::Method;
use bytes::Bytes;
use idem_tests::app::in_chunks;
use idem_tests::{Kind, TestApp};
use reqwest::multipart::{Form, Part};

stamp!(
    how_json_is_written_does_not_matter,
    what_json_says_does,
    amounts_beyond_double_precision_differ,
    json_that_is_ambiguous_or_broken_counts_as_its_bytes,
    the_order_of_a_form_matters_and_its_escapes_do_not,
    two_bodies_differ_whatever_the_content_type,
    another_content_type_is_another_request,
    a_multipart_retry_has_a_new_boundary,
    another_part_is_another_multipart_request,
    large_bodies_in_any_chunks_are_the_same_request,
    another_method_path_or_query_is_another_request,
    two_prefixes_of_one_router_are_two_paths,
    a_handler_without_a_body_does_not_see_one,
    other_headers_do_not_matter,
    the_fingerprint_option_replaces_the_request,
);

const JSON: &str = "application/json";

/// Sends one body, then the other with the same key, and says whether it is the same request.
async fn same(app: &TestApp, content_type: &str, one: &[u8], other: &[u8]) -> bool {
    let key = uuid::Uuid::new_v4().to_string();
    let send = |body: &[u8]| {
        let request = app
            .post("/effects")
            .key(&key)
            .header("content-type", content_type);
        request.body(body.to_vec())
    };
    let first = send(one).await;
    assert_eq!(first.status, 201, "{first:?}");
    let second = send(other).await;
    if second.is_replay() {
        second.assert_replays(&first);
    } else {
        second.assert_refused(422, "request-mismatch");
    }
    second.is_replay()
}

async fn assert_same(app: &TestApp, content_type: &str, pairs: &[(&str, &str)]) {
    for (one, other) in pairs {
        assert!(
            same(app, content_type, one.as_bytes(), other.as_bytes()).await,
            "{one} / {other}"
        );
    }
}

async fn assert_different(app: &TestApp, content_type: &str, pairs: &[(&str, &str)]) {
    for (one, other) in pairs {
        assert!(
            !same(app, content_type, one.as_bytes(), other.as_bytes()).await,
            "{one} / {other}"
        );
    }
}

async fn how_json_is_written_does_not_matter(kind: Kind) {
    let app = TestApp::start(kind).await;
    let pairs = [
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        (
            r#"{"a":{"x":1,"y":[1,2]}}"#,
            "{ \"a\" : {\n\"y\":[ 1 ,2], \"x\":1 } }\n",
        ),
        (r#"{"a":"A/"}"#, r#"{"\u0061":"\u0041\/"}"#),
        (r#"["\u00e9\ud83d\ude00"]"#, "[\"\u{e9}\u{1f600}\"]"),
        ("[1]", "[1.0]"),
        ("[100]", "[1e2]"),
        ("[0.5]", "[5E-1]"),
        ("[0]", "[-0.0e5]"),
    ];
    assert_same(&app, JSON, &pairs).await;
    assert_same(&app, "application/vnd.api+json; charset=utf-8", &pairs).await;
}

async fn what_json_says_does(kind: Kind) {
    let app = TestApp::start(kind).await;
    let pairs = [
        (r#"{"a":1}"#, r#"{"a":2}"#),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        (r#"{"a":1}"#, r#"{"a":"1"}"#),
        (r#"{"a":null}"#, "{}"),
        ("[1,2]", "[2,1]"),
        ("[[1],2]", "[[1,2]]"),
        ("[true]", "[false]"),
        ("[\"\u{e9}\"]", "[\"e\u{301}\"]"),
        ("[\"a\"]", "[\"A\"]"),
        ("[]", "{}"),
        ("[1]", "[-1]"),
        ("[10]", "[1]"),
    ];
    assert_different(&app, JSON, &pairs).await;
    assert_different(&app, "application/vnd.api+json", &pairs).await;
}

async fn amounts_beyond_double_precision_differ(kind: Kind) {
    let app = TestApp::start(kind).await;
    let pairs = [
        ("[9007199254740992]", "[9007199254740993]"),
        ("[18446744073709551615]", "[18446744073709551614]"),
        ("[100000000000000000001]", "[100000000000000000002]"),
        ("[0.1]", "[0.1000000000000000055]"),
        ("[1e400]", "[1e401]"),
        ("[1e-400]", "[0]"),
    ];
    assert_different(&app, JSON, &pairs).await;
}

async fn json_that_is_ambiguous_or_broken_counts_as_its_bytes(kind: Kind) {
    let app = TestApp::start(kind).await;
    let pairs = [
        (r#"{"amount":1,"amount":100}"#, r#"{"amount":100}"#),
        (
            r#"{"amount":1,"amount":100}"#,
            r#"{"amount":100,"amount":1}"#,
        ),
        (r#"{"amount":1,"amount":1}"#, r#"{"amount":1}"#),
        ("{\"a\":1", "{\"a\":1 "),
        ("[1] [2]", "[1] [3]"),
        ("", "null"),
        ("NaN", "Infinity"),
    ];
    assert_different(&app, JSON, &pairs).await;
    let same_bytes = [
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
        ("{", "{"),
        ("", ""),
    ];
    assert_same(&app, JSON, &same_bytes).await;
}

async fn the_order_of_a_form_matters_and_its_escapes_do_not(kind: Kind) {
    let app = TestApp::start(kind).await;
    let form = "application/x-www-form-urlencoded";
    assert_same(
        &app,
        form,
        &[("a=x+y&b=%41", "a=x%20y&b=A"), ("a=1", "a=1")],
    )
    .await;
    let different = [
        ("a=1&b=2", "b=2&a=1"),
        ("a=1", "a=2"),
        ("a=1&a=2", "a=2"),
        ("ab=c", "a=bc"),
        ("a", "b"),
    ];
    assert_different(&app, form, &different).await;
}

async fn two_bodies_differ_whatever_the_content_type(kind: Kind) {
    let app = TestApp::start(kind).await;
    for content_type in [
        JSON,
        "application/merge-patch+json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
        "multipart/form-data",
        "text/plain",
        "application/octet-stream",
        "application/xml",
        "no content type at all",
        "",
    ] {
        assert_different(
            &app,
            content_type,
            &[("one", "two"), ("", "x"), ("a", "a\n")],
        )
        .await;
        assert_same(&app, content_type, &[("one", "one"), ("", "")]).await;
        assert!(!same(&app, content_type, b"\xff\x00\xfe", b"\xff\x00\xff").await);
    }
}

async fn another_content_type_is_another_request(kind: Kind) {
    let app = TestApp::start(kind).await;
    let send = |content_type: &str| {
        app.post("/effects")
            .key("k")
            .header("content-type", content_type)
            .body("[1]")
    };
    let first = send(JSON).await;
    send("application/JSON; charset=utf-8")
        .await
        .assert_replays(&first);
    send("text/plain")
        .await
        .assert_refused(422, "request-mismatch");
    app.post("/effects")
        .key("k")
        .body("[1]")
        .await
        .assert_refused(422, "request-mismatch");
}

fn upload(file: &'static [u8], name: &'static str) -> Form {
    let file = Part::bytes(file)
        .file_name(name)
        .mime_str("image/png")
        .expect("a media type");
    Form::new().text("title", "holiday").part("picture", file)
}

async fn a_multipart_retry_has_a_new_boundary(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app
        .post("/multipart")
        .key("k")
        .multipart(upload(b"\x89PNG\0", "a.png"))
        .await;
    assert_eq!(first.status, 201);
    let retry = app
        .post("/multipart")
        .key("k")
        .multipart(upload(b"\x89PNG\0", "a.png"))
        .await;
    retry.assert_replays(&first);
}

async fn another_part_is_another_multipart_request(kind: Kind) {
    let app = TestApp::start(kind).await;
    let send = |form| app.post("/multipart").key("k").multipart(form);
    assert_eq!(send(upload(b"\x89PNG\0", "a.png")).await.status, 201);
    for other in [
        upload(b"\x89PNG\x01", "a.png"),
        upload(b"\x89PNG\0", "b.png"),
        upload(b"\x89PNG\0", "a.png").text("title", "again"),
        Form::new().text("title", "holiday"),
        Form::new()
            .text("title", "holiday")
            .text("picture", "a.png"),
    ] {
        send(other).await.assert_refused(422, "request-mismatch");
    }
    assert_eq!(app.effects().await, 1);
}

async fn large_bodies_in_any_chunks_are_the_same_request(kind: Kind) {
    let app = TestApp::start(kind).await;
    let body = Bytes::from(
        (0..200_000_u32)
            .map(|at| at.to_le_bytes()[0])
            .collect::<Vec<_>>(),
    );
    let first = app.post("/effects").key("k").body(body.clone()).await;
    assert_eq!(first.status, 201);
    for size in [997, 65_536] {
        let retry = app
            .post("/effects")
            .key("k")
            .body(in_chunks(&body, size))
            .await;
        retry.assert_replays(&first);
    }
    let shorter = body.slice(..body.len() - 1);
    let shorter = app
        .post("/effects")
        .key("k")
        .body(in_chunks(&shorter, 4096))
        .await;
    shorter.assert_refused(422, "request-mismatch");
}

async fn another_method_path_or_query_is_another_request(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects?page=1").key("k").await;
    assert_eq!(first.status, 201);
    for path in [
        "/effects",
        "/effects?page=2",
        "/effects?page=1&",
        "/effects/other-path?page=1",
    ] {
        app.post(path)
            .key("k")
            .await
            .assert_refused(422, "request-mismatch");
    }
    let put = app.request(Method::PUT, "/effects?page=1").key("k").await;
    put.assert_refused(422, "request-mismatch");
    app.post("/effects?page=1")
        .key("k")
        .await
        .assert_replays(&first);
}

async fn two_prefixes_of_one_router_are_two_paths(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/one/effects").key("k").await;
    assert_eq!(first.status, 201);
    app.post("/two/effects")
        .key("k")
        .await
        .assert_refused(422, "request-mismatch");
    app.post("/one/effects")
        .key("k")
        .await
        .assert_replays(&first);
}

async fn a_handler_without_a_body_does_not_see_one(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/bodiless").key("k").body("one").await;
    assert_eq!(first.status, 201);
    app.post("/bodiless")
        .key("k")
        .body("two")
        .await
        .assert_replays(&first);
    app.post("/bodiless?q")
        .key("k")
        .body("one")
        .await
        .assert_refused(422, "request-mismatch");
}

async fn other_headers_do_not_matter(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app
        .post("/effects")
        .key("k")
        .header("user-agent", "one")
        .body("b")
        .await;
    let retry = app.post("/effects").key("k").header("user-agent", "two");
    retry
        .header("traceparent", "00-1-1-00")
        .body("b")
        .await
        .assert_replays(&first);
}

async fn the_fingerprint_option_replaces_the_request(kind: Kind) {
    let app = TestApp::start(kind).await;
    let send = |body: &'static str| app.post("/amount").key("k").json(body);
    let first = send(r#"{"id": "a", "amount": 5, "note": "first try"}"#).await;
    assert_eq!(first.status, 201);
    send(r#"{"id": "a", "amount": 5, "note": "second try"}"#)
        .await
        .assert_replays(&first);
    for other in [
        r#"{"id": "a", "amount": 6}"#,
        r#"{"id": "a"}"#,
        r#"{"id": "b", "amount": 5}"#,
    ] {
        send(other).await.assert_refused(422, "request-mismatch");
    }
}
