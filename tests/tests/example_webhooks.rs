//! The example of webhooks, as a reader runs it, and with a sender of its own.

use std::time::SystemTime;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hmac::{Hmac, KeyInit, Mac};
use idem_tests::Answer;
use idem_tests::process::{ServerProcess, build};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;

const SECRET: &[u8] = b"a secret of the test's own";

struct Receiver {
    server: ServerProcess,
    _folder: TempDir,
}

impl Receiver {
    async fn start() -> Self {
        let program = build("example-webhooks", "example-webhooks").await;
        let folder = TempDir::new().expect("a folder");
        let secret = format!("whsec_{}", BASE64_STANDARD.encode(SECRET));
        let environment = [("LISTEN", "127.0.0.1:0"), ("WEBHOOK_SECRET", &secret)];
        let server = ServerProcess::start(&program, folder.path(), &environment).await;
        Self {
            server,
            _folder: folder,
        }
    }

    async fn deliver(&self, path: &str, delivery: &Delivery) -> Answer {
        let Delivery {
            id,
            timestamp,
            signature,
            body,
        } = delivery;
        let request = self.server.post(path).anonymous().json(body.clone());
        request
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .await
    }

    async fn balance(&self, account: &str) -> Value {
        let answer = self.server.get(&format!("/accounts/{account}")).await;
        answer.json::<Value>()["balance"].clone()
    }
}

/// A delivery as its sender signs it.
#[derive(Clone)]
struct Delivery {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

impl Delivery {
    fn new(id: &str, body: &Value) -> Self {
        Self::at(id, body, now())
    }

    fn at(id: &str, body: &Value, timestamp: i64) -> Self {
        let (timestamp, body) = (timestamp.to_string(), body.to_string());
        let code = Hmac::<Sha256>::new_from_slice(SECRET).expect("a key of any length");
        let code = code
            .chain_update(format!("{id}.{timestamp}.{body}"))
            .finalize();
        let signature = format!("v1,{}", BASE64_STANDARD.encode(code.into_bytes()));
        Self {
            id: id.to_owned(),
            timestamp,
            signature,
            body,
        }
    }
}

fn now() -> i64 {
    let age = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
    age.as_secs().cast_signed()
}

fn payment(account: &str, amount: i64) -> Value {
    json!({ "type": "payment.received", "data": { "account": account, "amount": amount } })
}

#[tokio::test]
async fn an_event_is_credited_once_however_often_it_is_delivered() {
    let receiver = Receiver::start().await;
    let path = "/webhooks/payments";
    let first = receiver
        .deliver(path, &Delivery::new("msg_1", &payment("alice", 900)))
        .await;
    assert_eq!(first.status, 204, "{first:?}");
    // Signed anew, as a sender does that comes again.
    let again = Delivery::at("msg_1", &payment("alice", 900), now() - 1);
    receiver.deliver(path, &again).await.assert_replays(&first);
    let other = receiver
        .deliver(path, &Delivery::new("msg_2", &payment("alice", 100)))
        .await;
    assert!(other.status == 204 && !other.is_replay(), "{other:?}");
    assert_eq!(receiver.balance("alice").await, 1000);
}

#[tokio::test]
async fn an_event_with_an_id_of_its_own_is_credited_once_whatever_the_delivery() {
    let receiver = Receiver::start().await;
    let refund = |id: &str, amount: i64, delivery: u32| json!({ "id": id, "account": "bob", "amount": amount, "delivery": delivery });
    let path = "/webhooks/refunds";
    let first = receiver
        .deliver(path, &Delivery::new("msg_1", &refund("evt_1", 5, 1)))
        .await;
    assert_eq!(first.status, 204, "{first:?}");
    let second = receiver
        .deliver(path, &Delivery::new("msg_2", &refund("evt_1", 5, 2)))
        .await;
    second.assert_replays(&first);
    let changed = receiver
        .deliver(path, &Delivery::new("msg_3", &refund("evt_1", 6, 3)))
        .await;
    changed.assert_refused(422, "request-mismatch");
    let other = receiver
        .deliver(path, &Delivery::new("msg_4", &refund("evt_2", 7, 1)))
        .await;
    assert!(other.status == 204 && !other.is_replay(), "{other:?}");
    assert_eq!(receiver.balance("bob").await, 12);
}

#[tokio::test]
async fn only_the_sender_credits() {
    let receiver = Receiver::start().await;
    let path = "/webhooks/payments";
    let genuine = Delivery::new("msg_1", &payment("alice", 900));
    let more = payment("alice", 901).to_string();
    let old = |seconds: i64| Delivery::at("msg_1", &payment("alice", 900), now() + seconds);
    let with = |change: fn(&mut Delivery)| {
        let mut changed = genuine.clone();
        change(&mut changed);
        changed
    };
    let forged = [
        Delivery {
            body: more,
            ..genuine.clone()
        },
        with(|delivery| delivery.id = "msg_2".to_owned()),
        with(|delivery| delivery.timestamp = (now() - 1).to_string()),
        with(|delivery| delivery.timestamp = i64::MIN.to_string()),
        with(|delivery| delivery.timestamp = u64::MAX.to_string()),
        with(|delivery| delivery.signature = delivery.signature.replace("v1,", "v2,")),
        with(|delivery| delivery.signature.truncate(20)),
        with(|delivery| delivery.signature = "v1,".to_owned()),
        with(|delivery| delivery.signature = String::new()),
        old(-301),
        old(310),
    ];
    for delivery in forged {
        let refused = receiver.deliver(path, &delivery).await;
        assert_eq!(
            refused.status, 401,
            "{} {}",
            delivery.timestamp, delivery.signature
        );
    }
    assert_eq!(receiver.balance("alice").await, 0);

    // A sender that changes its secret signs with both; and credentials come before the replay.
    let both = with(|delivery| delivery.signature = format!("v1,AAAA {}", delivery.signature));
    assert_eq!(receiver.deliver(path, &both).await.status, 204);
    let unsigned = with(|delivery| delivery.signature = "v1,AAAA".to_owned());
    assert_eq!(receiver.deliver(path, &unsigned).await.status, 401);
    assert_eq!(receiver.balance("alice").await, 900);
}

#[tokio::test]
async fn what_is_no_event_is_no_event() {
    let receiver = Receiver::start().await;
    for body in [
        json!({}),
        json!([]),
        json!({ "data": { "account": "alice" } }),
    ] {
        let refused = receiver
            .deliver("/webhooks/payments", &Delivery::new("msg_1", &body))
            .await;
        assert_eq!(refused.status, 400, "{body}");
    }
    // None of them has taken the key.
    let genuine = Delivery::new("msg_1", &payment("alice", 900));
    assert_eq!(
        receiver
            .deliver("/webhooks/payments", &genuine)
            .await
            .status,
        204
    );
}

/// The line that the program prints is signed with the secret of the demonstration.
#[tokio::test]
async fn the_printed_delivery_works() {
    let receiver = Receiver::start().await;
    let line = receiver.server.printed().await;
    let header = |name: &str| {
        let (_, value) = line.split_once(&format!("-H '{name}: ")).expect(name);
        value.split('\'').next().unwrap_or_default().to_owned()
    };
    let (_, body) = line.split_once("-d '").expect("a body");
    let delivery = Delivery {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body: body.trim_end_matches('\'').to_owned(),
    };
    let first = receiver.deliver("/webhooks/payments", &delivery).await;
    assert_eq!(first.status, 204, "{line}");
    receiver
        .deliver("/webhooks/payments", &delivery)
        .await
        .assert_replays(&first);
    assert_eq!(receiver.balance("alice").await, 900);
}
