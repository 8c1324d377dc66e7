//! What the log says, and never says.

use axum::http::StatusCode;
use axum::response::Response;
use idem_tests::log::Log;
use idem_tests::{Kind, Setup, TestApp};

/// Every secret has this in it, and nothing else has.
const MARK: &str = "hush";
const KEY: &str = "key-hush-1";

/// Goes through every outcome with secrets in every place that a client fills.
async fn every_outcome(app: &TestApp) {
    let send = |path: &str, body: &'static str| {
        let request = app
            .post(path)
            .account("tenant-hush")
            .key(KEY)
            .header("x-other", MARK);
        request.json(body)
    };
    app.script
        .answer(|| ([("x-answer", "header-hush")], "body-hush"));
    let (first, second) = (r#"{"a": "body-hush"}"#, r#"{"b": "body-hush"}"#);
    assert_eq!(send("/effects?query=hush", first).await.status, 200);
    assert!(send("/effects?query=hush", first).await.is_replay());
    assert_eq!(send("/effects?query=hush", second).await.status, 422);
    assert_eq!(app.post("/effects").key("key hush").await.status, 400);
    assert_eq!(
        app.post("/effects")
            .account("hush\thush")
            .key(KEY)
            .await
            .status,
        400
    );
    assert_eq!(send("/event", r#"{"id": "event hush"}"#).await.status, 400);

    app.script.gate.close();
    let running = send("/patient", first).start();
    app.script.gate.until_arrived(2).await;
    let waiting = send("/patient", first).start();
    assert_eq!(send("/patient", second).await.status, 422);
    app.script.gate.open();
    assert_eq!(running.answer().await.status, 200);
    assert!(waiting.answer().await.is_replay());

    app.script
        .answer(|| (StatusCode::PAYMENT_REQUIRED, "body-hush"));
    assert_eq!(send("/json", first).await.status, 402);
    app.script.answer(|| (StatusCode::BAD_GATEWAY, "body-hush"));
    assert_eq!(send("/success", first).await.status, 502);
    app.script.answer(|| "body-hush".repeat(1000));
    assert_eq!(send("/small", first).await.status, 200);
    assert_eq!(send("/small", first).await.status, 409);
    app.script
        .answer(|| -> Response { panic!("panic-{}", "hush") });
    assert_eq!(send("/bodiless", first).await.status, 500);
    app.script.answer(|| StatusCode::CREATED);
    app.script.statements(["commit"]);
    assert_eq!(send("/all", first).await.status, 500);
    app.script
        .statements(["insert into children (parent) values (42)"]);
    assert_eq!(send("/claim", first).await.status, 503);
    app.pool.close().await;
    assert_eq!(send("/other-scope", first).await.status, 503);
}

async fn assert_silent(kind: Kind) {
    let (log, _guard) = Log::capture();
    let app = TestApp::start(kind).await;
    every_outcome(&app).await;

    log.assert_without(MARK);
    for outcome in ["executed", "replayed", "mismatch", "handler_panic"] {
        let outcome = format!("outcome=\"{outcome}\"");
        log.assert_line(&["close", "scope=", "tenant_hash=", "key_hash=", &outcome]);
    }
    log.assert_line(&["attempt=1", "outcome=\"executed\""]);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_key_tenant_header_or_body_is_logged_on_postgres() {
    assert_silent(Kind::Postgres).await;
}

#[tokio::test]
async fn no_key_tenant_header_or_body_is_logged_on_sqlite() {
    assert_silent(Kind::Sqlite).await;
}

#[tokio::test]
async fn missing_tables_are_logged_in_a_line_that_says_what_to_do() {
    let (log, _guard) = Log::capture();
    let app = TestApp::with(
        Kind::Sqlite,
        Setup {
            migrate: false,
            ..Setup::default()
        },
    )
    .await;
    assert_eq!(app.post("/effects").key("k").await.status, 503);

    let text = log.text();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("migrate()"), "{}", lines[0]);
}
