//! Whose a key is. No request ever sees what another tenant or scope stored.

use idem_runtime::KeyState;
use idem_tests::app::Handle;
use idem_tests::{Kind, TestApp};

stamp!(
    an_operator_finds_a_key_that_all_share,
    two_tenants_with_one_key_are_apart,
    two_scopes_with_one_key_are_apart,
    a_separator_in_a_tenant_or_a_key_joins_nothing,
    a_refreshed_token_of_the_same_account_replays,
    revoked_credentials_get_no_replay,
    a_tenant_that_is_none_is_refused,
    tenants_are_compared_byte_by_byte,
    a_shared_tenant_is_one_for_all_and_nobody_elses,
    two_tenants_in_flight_with_one_key_are_apart,
);

async fn two_tenants_with_one_key_are_apart(kind: Kind) {
    let app = TestApp::start(kind).await;
    let alice = app.post("/effects").key("k").account("alice").await;
    let bob = app.post("/effects").key("k").account("bob").await;
    assert!(bob.status == 201 && !bob.is_replay(), "{bob:?}");
    assert_ne!(alice.body, bob.body);
    app.post("/effects")
        .key("k")
        .account("alice")
        .await
        .assert_replays(&alice);
    app.post("/effects")
        .key("k")
        .account("bob")
        .await
        .assert_replays(&bob);

    // Nor does one learn that the other has used the key for another request.
    let carol = app
        .post("/effects")
        .key("k")
        .account("carol")
        .body("another")
        .await;
    assert_eq!(carol.status, 201);
}

async fn two_scopes_with_one_key_are_apart(kind: Kind) {
    let app = TestApp::start(kind).await;
    let one = app.post("/effects").key("k").await;
    let other = app.post("/other-scope").key("k").await;
    assert!(other.status == 201 && !other.is_replay(), "{other:?}");
    assert_ne!(one.body, other.body);
}

async fn a_separator_in_a_tenant_or_a_key_joins_nothing(kind: Kind) {
    let app = TestApp::start(kind).await;
    let names = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("a:b:c", "c"),
        ("a:", "b:c"),
        ("a", ":b:c"),
    ];
    for (account, key) in names {
        let answer = app.post("/effects").account(account).key(key).await;
        assert!(
            answer.status == 201 && !answer.is_replay(),
            "{account} {key}: {answer:?}"
        );
    }
    assert_eq!(app.effects().await, 5);
}

async fn a_refreshed_token_of_the_same_account_replays(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects").key("k").token("alice/1").await;
    app.post("/effects")
        .key("k")
        .token("alice/2")
        .await
        .assert_replays(&first);
}

async fn revoked_credentials_get_no_replay(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/effects").key("k").await;
    assert_eq!(first.status, 201);
    for request in [
        app.post("/effects").key("k").token("alice/0"),
        app.post("/effects").key("k").anonymous(),
        // Whoever is nobody is not even told that the key is missing.
        app.post("/effects").anonymous(),
    ] {
        let answer = request.await;
        assert!(answer.status == 401 && answer.body.is_empty(), "{answer:?}");
    }
    app.post("/effects").key("k").await.assert_replays(&first);
}

async fn a_tenant_that_is_none_is_refused(kind: Kind) {
    let app = TestApp::start(kind).await;
    let too_long = "t".repeat(256);
    for account in ["", "a\tb", &too_long] {
        let answer = app.post("/effects").key("k").account(account).await;
        answer.assert_refused(400, "tenant-invalid");
    }
    app.assert_untouched().await;
    assert_eq!(
        app.post("/effects")
            .key("k")
            .account(&too_long[1..])
            .await
            .status,
        201
    );
}

async fn tenants_are_compared_byte_by_byte(kind: Kind) {
    let app = TestApp::start(kind).await;
    for account in ["alice", "Alice", "alice ", "alic"] {
        let answer = app.post("/effects").key("k").account(account).await;
        assert!(
            answer.status == 201 && !answer.is_replay(),
            "{account}: {answer:?}"
        );
    }
}

async fn a_shared_tenant_is_one_for_all_and_nobody_elses(kind: Kind) {
    let app = TestApp::start(kind).await;
    let first = app.post("/shared").key("k").account("alice").await;
    assert_eq!(first.status, 201);
    app.post("/shared")
        .key("k")
        .account("bob")
        .await
        .assert_replays(&first);
    app.post("/shared")
        .key("k")
        .anonymous()
        .await
        .assert_replays(&first);
    assert_eq!(app.effects().await, 1);
}

async fn two_tenants_in_flight_with_one_key_are_apart(kind: Kind) {
    let app = TestApp::start(kind).await;
    app.script.gate.close();
    let alice = app.post("/effects").key("k").account("alice").start();
    app.script.gate.until_arrived(1).await;
    let bob = app
        .post("/effects")
        .key("k")
        .account("bob")
        .body("another")
        .start();
    if !kind.is_sqlite() {
        // Of writers to SQLite there is only one at a time.
        app.script.gate.until_arrived(2).await;
    }
    app.script.gate.open();
    let (alice, bob) = (alice.answer().await, bob.answer().await);
    assert_eq!((alice.status, bob.status), (201, 201));
    assert_ne!(alice.body, bob.body);
}

async fn an_operator_finds_a_key_that_all_share(kind: Kind) {
    let app = TestApp::start(kind).await;
    assert_eq!(app.post("/shared").key("k").await.status, 201);
    let find = async |tenant: &str| match &app.handle {
        Handle::Postgres(handle) => handle.find("effects.shared", tenant, "k").await,
        Handle::Sqlite(handle) => handle.find("effects.shared", tenant, "k").await,
    };
    let found = find("").await.expect("the store answers");
    assert_eq!(found.expect("a key").state, KeyState::Finished);
    let found = find("alice").await.expect("the store answers");
    assert!(found.is_none(), "{found:?}");
}
