//! The examples, as a reader runs them: built by cargo, driven over HTTP.

use idem_tests::Answer;
use idem_tests::client::Request;
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::process::{ServerProcess, build};
use idem_tests::wire::Wire;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An example on a database of its own.
struct Example {
    server: ServerProcess,
    database: TestDatabase,
    _folder: TempDir,
}

impl Example {
    async fn start(package: &str, kind: Kind) -> Self {
        let program = build(package, package).await;
        let database = TestDatabase::create(kind).await;
        let folder = TempDir::new().expect("a folder");
        let environment = [("LISTEN", "127.0.0.1:0"), ("DATABASE_URL", database.url())];
        let server = ServerProcess::start(&program, folder.path(), &environment).await;
        Self {
            server,
            database,
            _folder: folder,
        }
    }

    fn post(&self, key: &str, body: &Value) -> Request {
        self.server
            .post("/payments")
            .token("alice-token")
            .key(key)
            .json(body.to_string())
    }

    fn pay(&self, key: &str, source: &str) -> Request {
        self.post(
            key,
            &json!({ "amount": 500, "currency": "usd", "source": source }),
        )
    }

    async fn payments(&self, token: &str) -> Vec<Value> {
        let list = self.server.get("/payments").token(token).await;
        assert_eq!(list.status, 200);
        list.json()
    }

    async fn rows(&self) -> i64 {
        self.database
            .pool()
            .number("select count(*) from payments")
            .await
    }
}

/// Goes through everything that the examples promise.
async fn assert_payments_can_be_retried(package: &str, kind: Kind) {
    let example = Example::start(package, kind).await;
    assert_the_printed_request_pays_once(&example).await;
    assert_only_amounts_are_accepted(&example).await;
    assert_each_source_plays_its_part(&example).await;
    assert_accounts_are_apart(&example).await;
    assert_a_stop_finishes_what_runs(example).await;
}

#[tokio::test]
async fn payments_can_be_retried_on_sqlite() {
    assert_payments_can_be_retried("example-payments", Kind::Sqlite).await;
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn payments_can_be_retried_on_postgres() {
    assert_payments_can_be_retried("example-payments-postgres", Kind::Postgres).await;
}

/// The words of a line for a shell; single quotes are all that it knows.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        let mut pieces = if at % 2 == 1 {
            vec![part]
        } else {
            part.split(' ').collect()
        };
        let first = pieces.remove(0);
        words.last_mut().expect("a word").push_str(first);
        words.extend(pieces.into_iter().map(str::to_owned));
    }
    words
}

/// Sends what the line would make curl send.
async fn curl(example: &Example, line: &str) -> Answer {
    let words = words(line);
    assert_eq!(words[..2], ["curl", "-i"], "{line}");
    let path = words[2]
        .strip_prefix("http://")
        .and_then(|url| url.split_once('/'));
    let mut request = example
        .server
        .post(&format!("/{}", path.expect("a path").1))
        .anonymous();
    for pair in words[3..].chunks(2) {
        request = match (pair[0].as_str(), pair[1].split_once(": ")) {
            ("-H", Some((name, value))) => request.header(name, value),
            ("-d", _) => request.body(pair[1].clone()),
            _ => panic!("{pair:?} in {line}"),
        };
    }
    request.await
}

async fn assert_the_printed_request_pays_once(example: &Example) {
    let (one, two) = (
        example.server.printed().await,
        example.server.printed().await,
    );
    assert_eq!(one, two);
    let first = curl(example, &one).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(first.headers["location"], "/payments/1");
    let payment: Value = first.json();
    let expected = json!({ "id": 1, "amount": 500, "currency": "usd", "source": "card_ok" });
    assert_eq!(payment, expected);

    curl(example, &two).await.assert_replays(&first);
    assert_eq!(
        example.payments("alice-token").await,
        std::slice::from_ref(&payment)
    );
    let one = example.server.get("/payments/1").token("alice-token").await;
    assert_eq!(one.json::<Value>(), payment);
}

async fn assert_only_amounts_are_accepted(example: &Example) {
    let before = example.rows().await;
    let bad = [
        "0",
        "-1",
        "9223372036854775808",
        "1.5",
        "\"500\"",
        "null",
        "[]",
        "1e400",
    ];
    for amount in bad {
        let body = format!(r#"{{"amount": {amount}, "currency": "usd", "source": "card_ok"}}"#);
        let request = example
            .server
            .post("/payments")
            .token("alice-token")
            .key("amount");
        assert_eq!(request.json(body).await.status, 400, "{amount}");
    }
    // What a text may hold is the database's matter; a failure of the server it is not.
    let nul = json!({ "amount": 500, "currency": "u\0d", "source": "card_declined" });
    let refused = example.post("nul", &nul).await;
    assert!(matches!(refused.status, 400 | 402), "{refused:?}");
    let none = json!({ "currency": "usd", "source": "card_ok" });
    assert_eq!(example.post("amount", &none).await.status, 400);
    assert_eq!(example.rows().await, before);

    // None of them has taken the key.
    for (key, amount) in [("amount", 1), ("largest", i64::MAX)] {
        let body = json!({ "amount": amount, "currency": "usd", "source": "card_ok" });
        let paid = example.post(key, &body).await;
        assert_eq!(paid.status, 201, "{paid:?}");
        assert_eq!(paid.json::<Value>()["amount"], amount);
    }
}

async fn assert_each_source_plays_its_part(example: &Example) {
    let before = example.rows().await;
    let declined = example.pay("declined", "card_declined").await;
    assert_eq!(declined.status, 402);
    example
        .pay("declined", "card_declined")
        .await
        .assert_replays(&declined);

    for _ in 0..2 {
        let unavailable = example.pay("unavailable", "card_unavailable").await;
        assert!(
            unavailable.status == 503 && !unavailable.is_replay(),
            "{unavailable:?}"
        );
    }
    let unknown = example.pay("unknown", "card_unheard_of").await;
    assert_eq!(unknown.status, 400);
    example
        .pay("panic", "card_panic")
        .await
        .assert_refused(500, "handler-panicked");
    assert_eq!(example.rows().await, before);

    let slow = example.pay("slow", "card_slow").await;
    assert_eq!(slow.status, 201);
    example.pay("slow", "card_slow").await.assert_replays(&slow);
    example
        .pay("slow", "card_ok")
        .await
        .assert_refused(422, "request-mismatch");
    assert_eq!(example.rows().await, before + 1);
}

async fn assert_accounts_are_apart(example: &Example) {
    let pay = || {
        let body = r#"{"amount": 7, "currency": "eur", "source": "card_ok"}"#;
        example.server.post("/payments").key("both").json(body)
    };
    let alice = pay().token("alice-token").await;
    let bob = pay().token("bob-token").await;
    assert!(bob.status == 201 && !bob.is_replay(), "{bob:?}");
    assert_ne!(alice.headers["location"], bob.headers["location"]);
    assert_eq!(example.payments("bob-token").await.len(), 1);

    let path = alice.headers["location"].to_str().expect("a path");
    assert_eq!(
        example.server.get(path).token("bob-token").await.status,
        404
    );
    for request in [pay().token("carol-token"), pay().anonymous()] {
        assert_eq!(request.await.status, 401);
    }
    assert_eq!(
        example.server.get("/payments").anonymous().await.status,
        401
    );
}

/// A payment whose client has left is done by the time the program has ended, which a client that
/// sends half a request does not hold up for good.
async fn assert_a_stop_finishes_what_runs(example: Example) {
    let before = example.rows().await;
    let mut payments = 0;
    let paying = loop {
        payments += 1;
        let key = format!("last-{payments}");
        let paying = example.pay(&key, "card_slow").start();
        tokio::task::yield_now().await;
        // 409 says that it runs; anything else, that this one came first and paid.
        if example.pay(&key, "card_slow").await.status == 409 {
            break paying;
        }
    };
    paying.leave();
    let address = example.server.url().trim_start_matches("http://");
    let address = address.parse().expect("an address");
    let _half = Wire::send(address, b"POST /payments HTTP/1.1\r\nhost: x\r\n").await;
    example.server.ask_to_stop().await;

    let Example {
        server,
        database,
        _folder,
    } = example;
    assert!(server.ended().await.success());
    let rows = database
        .pool()
        .number("select count(*) from payments")
        .await;
    assert_eq!(rows, before + payments);
}
