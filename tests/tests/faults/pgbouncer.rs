//! Behind PgBouncer: in session mode, and in transaction mode, where a session is lent for one
//! transaction, so nothing of a claim may live in the session. Before its 1.21 it does not know
//! prepared statements, which sqlx uses, so in transaction mode there is one connection here.

use axum::http::StatusCode;
use idem_tests::client::Pending;
use idem_tests::{Kind, Setup, TestApp};

const MODES: [&str; 2] = ["session", "transaction"];

stamp!(
    postgres: a_key_is_done_once_behind_pgbouncer,
    a_key_is_held_and_freed_behind_pgbouncer,
    many_duplicates_are_done_once_behind_pgbouncer,
);

async fn behind_pgbouncer(kind: Kind, mode: &'static str, pool_size: u32) -> TestApp {
    let setup = Setup {
        pgbouncer: Some(mode),
        pool_size,
        ..Setup::default()
    };
    TestApp::with(kind, setup).await
}

async fn a_key_is_done_once_behind_pgbouncer(kind: Kind) {
    for mode in MODES {
        let app = behind_pgbouncer(kind, mode, 1).await;
        let first = app.post("/effects").key("k").await;
        assert_eq!(first.status, 201);
        for _ in 0..5 {
            app.post("/effects").key("k").await.assert_replays(&first);
        }
        let other = app.post("/effects").key("k").body("another").await;
        other.assert_refused(422, "request-mismatch");
        assert_eq!((app.effects().await, app.keys().await), (1, 1));
    }
}

async fn a_key_is_held_and_freed_behind_pgbouncer(kind: Kind) {
    for mode in MODES {
        let app = behind_pgbouncer(kind, mode, 1).await;
        let direct = app.beside().await;
        app.script.gate.close();
        let first = app.post("/effects").key("k").start();
        app.script.gate.until_arrived(1).await;
        let meanwhile = direct.post("/effects").key("k").await;
        meanwhile.assert_refused(409, "in-progress");
        let other = direct.post("/effects").key("k").body("another").await;
        other.assert_refused(422, "request-mismatch");

        app.script.answer(|| StatusCode::BAD_GATEWAY);
        app.script.gate.open();
        assert_eq!(first.answer().await.status, 502);
        let retry = direct.post("/effects").key("k").await;
        assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
        app.post("/effects").key("k").await.assert_replays(&retry);
        assert_eq!((app.effects().await, app.keys().await), (1, 1));
    }
}

async fn many_duplicates_are_done_once_behind_pgbouncer(kind: Kind) {
    let app = behind_pgbouncer(kind, "session", 3).await;
    let send = |n: usize| {
        let key = format!("k-{}", n % 20);
        app.post("/patient").key(&key).start()
    };
    let all: Vec<Pending> = (0..60).map(send).collect();
    for pending in all {
        let answer = pending.answer().await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    assert_eq!((app.effects().await, app.keys().await), (20, 20));
}
