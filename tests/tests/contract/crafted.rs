//! What somebody made up to be taken for something else.

use idem_tests::{Kind, TestApp};

stamp!(
    crafted_names_are_nothing_but_names,
    a_record_changed_by_hand_smuggles_no_header,
    an_encoded_body_is_compared_as_it_came,
    what_a_dead_leased_run_has_left_is_not_run_by_an_atomic_handler,
);

/// Each of them is a tenant, and a key.
const NAMES: [&str; 12] = [
    "a",
    "A",
    "%",
    "_",
    "\\",
    "'",
    "'or'1'='1",
    "a\";drop/**/table/**/idempotency_keys;--",
    "$1",
    "{keys}",
    "\\x61",
    "null",
];

async fn crafted_names_are_nothing_but_names(kind: Kind) {
    let app = TestApp::start(kind).await;
    let elsewhere = app.beside().await;
    let mut answers = Vec::new();
    for account in NAMES {
        for key in NAMES {
            let answer = app.post("/effects").account(account).key(key).await;
            let new = answer.status == 201 && !answer.is_replay();
            assert!(new, "{account} {key}: {answer:?}");
            answers.push((account, key, answer));
        }
    }
    for (account, key, answer) in &answers {
        let retry = elsewhere.post("/effects").account(account).key(key).await;
        retry.assert_replays(answer);
    }
    let all = i64::try_from(answers.len()).expect("few");
    assert_eq!((app.effects().await, app.keys().await), (all, all));
}

/// As the column of headers holds them.
fn column(headers: &[(&str, &[u8])]) -> String {
    let parts = headers
        .iter()
        .flat_map(|(name, value)| [name.as_bytes(), value]);
    parts.fold(String::new(), |hex, part| {
        let length = u32::try_from(part.len()).expect("short");
        let bytes = [&length.to_be_bytes()[..], part].concat();
        bytes
            .iter()
            .fold(hex, |hex, byte| hex + &format!("{byte:02x}"))
    })
}

async fn a_record_changed_by_hand_smuggles_no_header(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    let change = async |hex: &str| {
        let bytes = if kind.is_sqlite() {
            format!("x'{hex}'")
        } else {
            format!("decode('{hex}', 'hex')")
        };
        let update = format!("update idempotency_keys set headers = {bytes}");
        app.database.execute(&update).await;
    };
    for (name, value) in [
        ("x-a", &b"b\r\nset-cookie: c"[..]),
        ("x-a", b"b\nset-cookie: c"),
        ("x-a", b"b\rset-cookie: c"),
        ("x-a", b"b\0"),
        ("x-a: b\r\nset-cookie", b"c"),
        ("x a", b"b"),
        ("", b"b"),
    ] {
        change(&column(&[("x-before", b"1"), (name, value)])).await;
        let answer = app.post("/effects").key("k").await;
        answer.assert_refused(409, "response-not-kept");
        for name in ["set-cookie", "x-a", "x-before"] {
            assert!(!answer.headers.contains_key(name), "{answer:?}");
        }
    }
    for cut in [
        "00",
        "00000001",
        "0000000161",
        "00000001610000000262",
        "ffffffff6161",
    ] {
        change(cut).await;
        let answer = app.post("/effects").key("k").await;
        answer.assert_refused(503, "store-unavailable");
    }
    change(&column(&[("x-a", b"\xe9\t\xff")])).await;
    let replay = app.post("/effects").key("k").await;
    assert!(replay.is_replay(), "{replay:?}");
    assert_eq!(replay.headers["x-a"].as_bytes(), b"\xe9\t\xff");
    assert_eq!(app.effects().await, 1);
}

/// A member of the gzip format that holds `{}`, and says when it was made.
fn gzip(made: u8) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, made, 0, 0, 0, 0, 0xff];
    let stored = [1, 2, 0, 0xfd, 0xff, b'{', b'}'];
    let tail = [0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0];
    [&head[..], &stored, &tail].concat()
}

async fn an_encoded_body_is_compared_as_it_came(kind: Kind) {
    let app = TestApp::start(kind).await;
    let send = |made| {
        let request = app.post("/effects").key("k").json(gzip(made));
        request.header("content-encoding", "gzip")
    };
    let first = send(1).await;
    assert_eq!(first.status, 201);
    send(1).await.assert_replays(&first);
    // Nobody unpacks it, so it can be as large as it likes inside.
    send(2).await.assert_refused(422, "request-mismatch");
}

/// As after a deployment that changed a handler's mode: its finished steps are nothing that an atomic
/// handler could go on after.
async fn what_a_dead_leased_run_has_left_is_not_run_by_an_atomic_handler(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
    app.database
        .execute(
            "update idempotency_keys set state = 1, locked_until = created_at, completed_at = null, \
             status = null, headers = null, body = null",
        )
        .await;
    let retry = app.post("/effects").key("k").await;
    retry.assert_refused(409, "in-progress");
    app.expire_keys().await;
    assert_eq!(app.post("/effects").key("k").await.status, 201);
}
