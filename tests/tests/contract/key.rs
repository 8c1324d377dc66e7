//! Where the key comes from, and what is a key.

use idem_tests::wire::{Wire, post};
use idem_tests::{Kind, TestApp};
use uuid::Uuid;

stamp!(
    quoted_and_bare_spellings_are_one_key,
    a_key_of_255_random_characters_works,
    a_request_without_a_key_is_refused,
    what_is_no_key_is_refused_and_touches_nothing,
    two_key_headers_are_refused,
    a_key_with_nul_or_line_breaks_touches_nothing,
    keys_are_case_sensitive,
);

async fn quoted_and_bare_spellings_are_one_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects").key("8e03978e").await;
    assert_eq!(first.status, 201);

    app.post("/effects")
        .key("\"8e03978e\"")
        .await
        .assert_replays(&first);
    assert_eq!(app.effects().await, 1);
}

async fn a_key_of_255_random_characters_works(kind: Kind) {
    let app = TestApp::start(kind).await;
    let random = std::iter::repeat_with(|| *Uuid::new_v4().as_bytes()).flatten();
    let key: String = random
        .map(|byte| char::from(b'!' + byte % 94))
        .take(255)
        .collect();
    let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));

    let first = app.post("/effects").key(&quoted).await;
    assert_eq!(first.status, 201, "{key}");
    app.post("/effects")
        .key(&quoted)
        .await
        .assert_replays(&first);

    // One character more is too long, and a shorter one is another key.
    let longer = format!("{}x\"", &quoted[..quoted.len() - 1]);
    app.post("/effects")
        .key(&longer)
        .await
        .assert_refused(400, "key-invalid");
    let shorter = "s".repeat(254);
    assert_eq!(app.post("/effects").key(&shorter).await.status, 201);
    assert_eq!(app.effects().await, 2);
}

async fn a_request_without_a_key_is_refused(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.post("/effects")
        .await
        .assert_refused(400, "key-missing");
    app.assert_untouched().await;
}

async fn what_is_no_key_is_refused_and_touches_nothing(kind: Kind) {
    let app = TestApp::start(kind).await;
    let too_long = [b'k'; 256];
    let bad: [&[u8]; 13] = [
        b"",
        b" ",
        b"\"\"",
        &too_long,
        b"two words",
        b"\"two words\"",
        b"a\tb",
        "schl\u{fc}ssel".as_bytes(),
        b"\xff\xfe",
        b"\"open",
        b"\"one\", \"two\"",
        b"\"one\";parameter=1",
        br#""bad\escape""#,
    ];
    for value in bad {
        let answer = app.post("/effects").header("idempotency-key", value).await;
        answer.assert_refused(400, "key-invalid");
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(
            !said.contains("words") && !said.contains("open"),
            "repeats the key: {said}"
        );
    }
    assert_eq!(app.script.gate.arrived(), 0);
    app.assert_untouched().await;
}

async fn two_key_headers_are_refused(kind: Kind) {
    let app = TestApp::start(kind).await;
    for second in ["one", "two"] {
        let answer = app.post("/effects").key("one").key(second).await;
        answer.assert_refused(400, "key-invalid");
    }
    app.assert_untouched().await;
}

async fn a_key_with_nul_or_line_breaks_touches_nothing(kind: Kind) {
    let app = TestApp::start(kind).await;
    for value in [&b"a\0b"[..], b"a\x01b", b"a\x7fb", b"a\rb"] {
        let request = post("/effects", &[("idempotency-key", value)], b"");
        let answer = Wire::send(app.address, &request).await.answer().await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{value:?}: {answer}");
    }
    app.assert_untouched().await;
}

async fn keys_are_case_sensitive(kind: Kind) {
    let app = TestApp::start(kind).await;
    for key in ["key", "KEY", "Key"] {
        let answer = app.post("/effects").key(key).await;
        assert!(answer.status == 201 && !answer.is_replay(), "{answer:?}");
    }
    assert_eq!(app.effects().await, 3);
}
