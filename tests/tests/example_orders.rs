//! The example of orders, as a reader runs it: two programs, a card for each misfortune.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use idem_tests::Answer;
use idem_tests::client::Request;
use idem_tests::process::{ServerProcess, build};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The shop and its provider, each with a file of its own in the folder.
struct Shop {
    server: ServerProcess,
    psp: ServerProcess,
    program: PathBuf,
    folder: TempDir,
}

impl Shop {
    async fn open() -> Self {
        let psp = build("example-orders", "psp").await;
        let program = build("example-orders", "example-orders").await;
        let folder = TempDir::new().expect("a folder");
        let listen = ("LISTEN", "127.0.0.1:0");
        let psp = ServerProcess::start(&psp, folder.path(), &[listen]).await;
        let server = launch(&program, folder.path(), &psp).await;
        Self {
            server,
            psp,
            program,
            folder,
        }
    }

    /// Kills the shop's program and starts it again.
    async fn crash(&mut self) {
        let next = launch(&self.program, self.folder.path(), &self.psp).await;
        std::mem::replace(&mut self.server, next).kill().await;
    }

    fn order(&self, key: &str, card: &str) -> Request {
        let body = json!({ "sku": "sku-1", "quantity": 1, "amount": 900, "card": card });
        self.send(key, &body)
    }

    fn send(&self, key: &str, body: &Value) -> Request {
        let request = self.server.post("/orders").token("alice-token").key(key);
        request.json(body.to_string())
    }

    async fn orders(&self, token: &str) -> Vec<Value> {
        let answer = self.server.get("/orders").token(token).await;
        assert_eq!(answer.status, 200);
        answer.json()
    }

    async fn available(&self) -> i64 {
        let stock: Value = self.server.get("/stock/sku-1").await.json();
        assert_eq!(stock["sku"], "sku-1");
        stock["available"].as_i64().expect("a number")
    }

    async fn charges(&self) -> Vec<Value> {
        self.psp.get("/charges").await.json()
    }
}

async fn launch(program: &Path, folder: &Path, psp: &ServerProcess) -> ServerProcess {
    let environment = [
        ("LISTEN", "127.0.0.1:0"),
        ("PSP_URL", psp.url()),
        ("LEASE", "1s"),
    ];
    ServerProcess::start(program, folder, &environment).await
}

fn assert_made(answer: &Answer, charges: &[Value]) {
    assert_eq!(answer.status, 201, "{answer:?}");
    let order: Value = answer.json();
    assert_eq!(
        (&order["sku"], &order["status"]),
        (&json!("sku-1"), &json!("confirmed"))
    );
    let charge = charges.last().expect("a charge");
    assert_eq!(
        (&order["charge_id"], &charge["amount"]),
        (&charge["id"], &json!(900))
    );
}

#[tokio::test]
async fn each_card_plays_its_part_once() {
    let shop = Shop::open().await;
    assert_eq!(shop.available().await, 1000);

    let made = shop.order("ok", "card_ok").await;
    assert_made(&made, &shop.charges().await);
    shop.order("ok", "card_ok").await.assert_replays(&made);
    shop.order("ok", "card_slow")
        .await
        .assert_refused(422, "request-mismatch");

    let dropped = shop.order("drop", "card_drop").await;
    assert_eq!(dropped.status, 503, "{dropped:?}");
    assert_eq!(
        shop.charges().await.len(),
        2,
        "it is charged, although there was no answer"
    );
    assert_made(
        &shop.order("drop", "card_drop").await,
        &shop.charges().await,
    );

    let slow = shop.order("slow", "card_slow").start();
    while shop.charges().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shop.order("slow", "card_slow")
        .await
        .assert_refused(409, "in-progress");
    let slow = slow.answer().await;
    assert_made(&slow, &shop.charges().await);
    shop.order("slow", "card_slow").await.assert_replays(&slow);
    assert_eq!(
        (shop.charges().await.len(), shop.available().await),
        (3, 997)
    );

    for card in ["card_declined", "card_unheard_of"] {
        let declined = shop.order(card, card).await;
        assert_eq!(declined.status, 402, "{declined:?}");
        shop.order(card, card).await.assert_replays(&declined);
    }
    assert_eq!(
        shop.available().await,
        997,
        "a declined order gives its stock back"
    );

    for _ in 0..2 {
        let down = shop.order("down", "card_down").await;
        assert!(down.status == 503 && !down.is_replay(), "{down:?}");
    }
    assert_eq!(
        (shop.charges().await.len(), shop.available().await),
        (3, 996)
    );

    assert_eq!(shop.orders("alice-token").await.len(), 4);
    assert!(shop.orders("bob-token").await.is_empty());
    let key = |charge: &Value| charge["idempotency_key"].as_str().map(str::len);
    assert!(
        shop.charges()
            .await
            .iter()
            .all(|charge| key(charge) == Some(36))
    );
}

#[tokio::test]
async fn an_order_outlives_its_program() {
    let mut shop = Shop::open().await;
    let lost = shop.order("k", "card_slow").start();
    while shop.charges().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shop.crash().await;
    let died = Instant::now();
    assert!(lost.answer_if_any().await.is_none());

    let mut answer = shop.order("k", "card_slow").await;
    while answer.status != 201 {
        assert!(matches!(answer.status, 409 | 503), "{answer:?}");
        assert!(died.elapsed() < Duration::from_mins(1), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        answer = shop.order("k", "card_slow").await;
    }
    let took = died.elapsed();
    assert!(
        took <= Duration::from_secs(2),
        "the take-over took {took:?}"
    );
    assert_made(&answer, &shop.charges().await);
    shop.crash().await;
    let again = shop.order("k", "card_slow").await;
    assert!(again.is_replay() && again.body == answer.body, "{again:?}");
    assert_eq!(
        (shop.charges().await.len(), shop.available().await),
        (1, 999)
    );
    assert_eq!(shop.orders("alice-token").await.len(), 1);
}

#[tokio::test]
async fn what_is_no_order_takes_no_key() {
    let shop = Shop::open().await;
    let order = |quantity: Value, amount: Value| json!({ "sku": "sku-1", "quantity": quantity, "amount": amount, "card": "card_ok" });
    let bad = [
        order(json!(0), json!(900)),
        order(json!(-1), json!(900)),
        order(json!(1), json!(0)),
        order(json!(1.5), json!(900)),
        order(json!("1"), json!(900)),
        json!({ "sku": "sku-1", "amount": 900, "card": "card_ok" }),
        json!([]),
    ];
    for body in bad {
        assert_eq!(shop.send("k", &body).await.status, 400, "{body}");
    }
    // Nothing but time hinders this one: it leaves no trace, and its key may do something else.
    let too_many = shop.send("k", &order(json!(1001), json!(900))).await;
    assert!(
        too_many.status == 409 && !too_many.is_replay(),
        "{too_many:?}"
    );
    assert_eq!(
        shop.send("k", &order(json!(1000), json!(900))).await.status,
        201
    );
    assert_eq!(shop.available().await, 0);

    for request in [
        shop.order("l", "card_ok").anonymous(),
        shop.order("l", "card_ok").token("x"),
    ] {
        assert_eq!(request.await.status, 401);
    }
    assert_eq!(shop.charges().await.len(), 1);
}
