//! The sink of Standard Webhooks, with a receiver that verifies as receivers do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use bytes::Bytes;
use idem_runtime::outbox::{Message, Webhooks};
use idem_tests::Kind;
use standardwebhooks::Webhook;
use tokio::net::TcpListener;

use crate::fixture::{Bus, Tuning, message, spawn};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEXT_SECRET: &str = "whsec_plJ3nmyCDGBKInavdOK15jsl1nmyCDGBKInavdOK";

/// What arrived.
type Deliveries = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// Answers with these in turn, and with 204 from then on.
fn receive(listener: TcpListener, answers: &[u16]) -> Deliveries {
    let deliveries = Deliveries::default();
    let answers = answers.to_vec();
    let app = Router::new().route(
        "/hooks",
        post({
            let deliveries = Arc::clone(&deliveries);
            async move |headers: HeaderMap, body: Bytes| {
                let mut deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
                deliveries.push((headers, body));
                let answer = answers.get(deliveries.len() - 1).copied().unwrap_or(204);
                StatusCode::from_u16(answer).expect("a status")
            }
        }),
    );
    tokio::spawn(axum::serve(listener, app).into_future());
    deliveries
}

async fn endpoint() -> (TcpListener, Webhooks) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let url = format!("http://{address}/hooks")
        .parse()
        .expect("an address");
    let sink = Webhooks::new(reqwest::Client::builder(), url, SECRET).expect("a secret");
    (listener, sink)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers[name].to_str().expect("text")
}

#[tokio::test]
async fn each_attempt_is_signed_anew_under_the_same_id() {
    let bus = Bus::start(Kind::Sqlite).await;
    let (listener, sink) = endpoint().await;
    let deliveries = receive(listener, &[500]);
    let sink = sink.also_signed_with(NEXT_SECRET).expect("a secret");
    let mut sent = Message::json("paid", "k", &"hello").expect("JSON");
    // What a message says itself does not stand in for what is signed.
    for name in ["webhook-id", "Webhook-Timestamp", "webhook-signature"] {
        sent.headers.insert(name.into(), "1".into());
    }
    let ids = bus.publish([sent]).await;
    let tuning = Tuning {
        // Time stamps are in seconds.
        backoff: Duration::from_millis(1_100),
        ..Tuning::default()
    };
    assert_eq!(bus.send(&sink, tuning).await, 0);
    tokio::time::sleep(tuning.backoff).await;
    assert_eq!(bus.send(&sink, tuning).await, 1);

    let deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
    let [first, second] = &deliveries[..] else {
        panic!("{deliveries:?}");
    };
    for (headers, body) in [first, second] {
        assert_eq!(header(headers, "webhook-id"), ids[0].to_string());
        assert_eq!(header(headers, "content-type"), "application/json");
        assert_eq!(**body, *br#""hello""#);
        for secret in [SECRET, NEXT_SECRET] {
            let verified = Webhook::new(secret)
                .expect("a secret")
                .verify(body, headers);
            assert!(verified.is_ok(), "{verified:?}");
        }
        let other = Webhook::new("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").expect("a secret");
        assert!(other.verify(body, headers).is_err());
    }
    for name in ["webhook-timestamp", "webhook-signature"] {
        assert_ne!(header(&first.0, name), header(&second.0, name), "{name}");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_told_nothing_more() {
    let bus = Bus::start(Kind::Sqlite).await;
    let (listener, sink) = endpoint().await;
    let deliveries = receive(listener, &[410]);
    bus.publish([message("k", "x")]).await;
    bus.send(&sink, Tuning::default()).await;
    assert_eq!(bus.dead_letters().await.len(), 1);
    let deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(deliveries.len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_away_costs_no_attempt() {
    let bus = Bus::start(Kind::Sqlite).await;
    let (listener, sink) = endpoint().await;
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let tuning = Tuning {
        max_attempts: 2,
        backoff: Duration::from_millis(20),
        ..Tuning::default()
    };
    let relay = spawn(&bus.handle, &sink, tuning);
    bus.publish([message("k", "x")]).await;
    bus.until_tried_without_counting().await;

    let listener = TcpListener::bind(address).await.expect("the same port");
    receive(listener, &[]);
    bus.until_sent().await;
    relay.stop().await;
}

/// The pauses grow up to the dead letter, and the endpoint's reasons are kept for the operator.
#[tokio::test]
async fn an_endpoint_that_refuses_makes_a_dead_letter() {
    let bus = Bus::start(Kind::Sqlite).await;
    let (listener, sink) = endpoint().await;
    receive(listener, &[503, 302, 400]);
    let ids = bus.publish([message("k", "x")]).await;
    let tuning = Tuning {
        max_attempts: 3,
        ..Tuning::default()
    };
    bus.until_dead(&sink, tuning, 1).await;
    let why = bus.dead_letters().await.remove(0).error.unwrap_or_default();
    assert!(why.contains("400"), "{why}");
    assert!(bus.resend(ids[0]).await);
    assert_eq!(bus.send(&sink, tuning).await, 1);
}

/// Who followed it would turn the post into a get, which succeeds and tells nobody anything; also at
/// the address of the post itself.
#[tokio::test]
async fn what_an_endpoint_redirects_was_not_sent() {
    for target in ["/landing", "/hooks"] {
        let bus = Bus::start(Kind::Sqlite).await;
        let (listener, sink) = endpoint().await;
        let redirect = async move || (StatusCode::FOUND, [(LOCATION, target)]);
        let app = Router::new()
            .route("/hooks", post(redirect).get(async || StatusCode::OK))
            .route("/landing", get(async || StatusCode::OK));
        tokio::spawn(axum::serve(listener, app).into_future());
        bus.publish([message("k", "x")]).await;
        let once = Tuning {
            max_attempts: 1,
            ..Tuning::default()
        };
        assert_eq!(bus.send(&sink, once).await, 0, "{target}");
        let why = bus.dead_letters().await.remove(0).error.unwrap_or_default();
        assert!(why.contains("302"), "{target}: {why}");
    }
}

/// The client takes the password out of the address, and a fragment is not sent.
#[tokio::test]
async fn an_address_with_a_password_and_a_fragment_is_no_redirect() {
    let bus = Bus::start(Kind::Sqlite).await;
    let (listener, _) = endpoint().await;
    let address = listener.local_addr().expect("an address");
    receive(listener, &[]);
    let url = format!("http://shop:secret@{address}/hooks#x");
    let url = url.parse().expect("an address");
    let sink = Webhooks::new(reqwest::Client::builder(), url, SECRET).expect("a secret");
    bus.publish([message("k", "x")]).await;
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
}

/// Its backlog is full, so that the kernel drops whatever else wants to connect.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_endpoint_that_drops_packets_costs_no_attempt() {
    let bus = Bus::start(Kind::Sqlite).await;
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    let any = "127.0.0.1:0".parse().expect("an address");
    socket.bind(any).expect("a free port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let connect = || tokio::net::TcpStream::connect(address);
    let mut connections = Vec::new();
    let short = Duration::from_millis(300);
    while let Ok(connection) = tokio::time::timeout(short, connect()).await {
        connections.push(connection.expect("a connection"));
    }
    let client = reqwest::Client::builder().connect_timeout(short);
    let url = format!("http://{address}/hooks").parse();
    let url = url.expect("an address");
    let sink = Webhooks::new(client, url, SECRET).expect("a secret");
    bus.publish([message("k", "x")]).await;
    for _ in 0..2 {
        assert_eq!(bus.send(&sink, Tuning::default()).await, 0);
    }
    let counted = bus.pool.number("select sum(attempts) from outbox").await;
    assert_eq!(counted, 0);
}
