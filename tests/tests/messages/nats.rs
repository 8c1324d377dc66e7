//! The sink to NATS JetStream, with a real server.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use idem_runtime::outbox::{JetStream, Message};
use idem_tests::Kind;
use idem_tests::broker::{name, nats};
use tempfile::TempDir;

use crate::fixture::{Bus, Tuning, message, spawn};

/// How long a stream knows a message that it has.
const WINDOW: Duration = Duration::from_mins(2);

/// Short enough that a stream keeps second copies.
const NO_WINDOW: Duration = Duration::from_millis(100);

fn to(topic: &str, label: &str) -> Message {
    Message {
        topic: topic.into(),
        ..message("k", label)
    }
}

#[tokio::test]
#[cfg_attr(not(feature = "nats-server"), ignore = "needs NATS: run scripts/test")]
async fn a_message_arrives_at_nats_with_its_id_and_its_headers() {
    let (bus, name) = (Bus::start(Kind::Sqlite).await, name());
    let context = nats::connect(&nats::url()).await;
    let stream = nats::create_stream(&context, &name, WINDOW).await;
    let mut sent = to(&format!("{name}.paid"), "hello");
    sent.headers.insert("X-Trace".into(), "t-1".into());
    let ids = bus.publish([sent]).await;
    let sink = JetStream::new(context);
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);

    let got = nats::nth(&stream, 1).await;
    assert_eq!(*got.payload, *b"hello");
    let headers = got.headers;
    let header = |name: &str| headers.get(name).map(ToString::to_string);
    assert_eq!(header("Nats-Msg-Id"), Some(ids[0].to_string()));
    assert_eq!(header("X-Trace").as_deref(), Some("t-1"));
}

#[tokio::test]
#[cfg_attr(not(feature = "nats-server"), ignore = "needs NATS: run scripts/test")]
async fn what_no_stream_takes_becomes_a_dead_letter_and_can_be_resent() {
    let (bus, name) = (Bus::start(Kind::Sqlite).await, name());
    let context = nats::connect(&nats::url()).await;
    let sink = JetStream::new(context.clone());
    let ids = bus.publish([to(&format!("{name}.paid"), "early")]).await;
    let tuning = Tuning {
        max_attempts: 3,
        ..Tuning::default()
    };
    bus.until_dead(&sink, tuning, 1).await;
    let dead = bus.dead_letters().await;
    let why = dead[0].error.clone().unwrap_or_default();
    assert!(why.contains("no stream"), "{why}");

    let stream = nats::create_stream(&context, &name, WINDOW).await;
    assert!(bus.resend(ids[0]).await);
    assert_eq!(bus.send(&sink, tuning).await, 1);
    let headers = nats::nth(&stream, 1).await.headers;
    assert_eq!(
        headers.get("Nats-Msg-Id").map(ToString::to_string),
        Some(ids[0].to_string())
    );
}

/// Neither does it hold back what comes after it.
#[tokio::test]
#[cfg_attr(not(feature = "nats-server"), ignore = "needs NATS: run scripts/test")]
async fn what_nats_can_never_take_is_a_dead_letter_at_once() {
    let (bus, name) = (Bus::start(Kind::Sqlite).await, name());
    let context = nats::connect(&nats::url()).await;
    let stream = nats::create_stream(&context, &name, WINDOW).await;
    let topic = format!("{name}.paid");
    let mut header = to(&topic, "x");
    header.headers.insert("a:b".into(), "c".into());
    let poison = [
        to(&topic, &"x".repeat(2 << 20)),
        to(&format!("{name}.*"), "x"),
        to(&format!("{name}. x"), "x"),
        header,
    ];
    bus.publish(poison).await;
    bus.publish([to(&topic, "next")]).await;
    let sink = JetStream::new(context);
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    assert_eq!(*nats::nth(&stream, 1).await.payload, *b"next");
    let dead = bus.dead_letters().await;
    assert!(
        dead.len() == 4 && dead.iter().all(|letter| letter.envelope.attempt == 1),
        "{dead:?}"
    );
}

#[tokio::test]
#[cfg_attr(not(feature = "nats-server"), ignore = "needs NATS: run scripts/test")]
async fn a_nats_server_that_is_away_costs_no_attempt() {
    let (bus, name) = (Bus::start(Kind::Sqlite).await, name());
    let folder = TempDir::new().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let server = nats::Server::start(port, folder.path());
    let context = nats::connect(&format!("nats://127.0.0.1:{port}")).await;
    nats::create_stream(&context, &name, NO_WINDOW).await;
    server.kill().await;

    // Nobody is there when it connects, nor later.
    let context = nats::connect(&format!("nats://127.0.0.1:{port}")).await;
    let sink = JetStream::new(context.clone());
    let tuning = Tuning {
        max_attempts: 2,
        backoff: Duration::from_millis(20),
        ..Tuning::default()
    };
    let topic = format!("{name}.paid");
    let relay = spawn(&bus.handle, &sink, tuning);
    bus.publish((0..20).map(|n| to(&topic, &format!("a{n:02}"))))
        .await;
    bus.until_tried_without_counting().await;

    let server = nats::Server::start(port, folder.path());
    bus.until_sent().await;
    server.kill().await;
    while context.client().connection_state() == State::Connected {
        tokio::task::yield_now().await;
    }
    bus.publish((0..20).map(|n| to(&topic, &format!("b{n:02}"))))
        .await;
    let since = Instant::now();
    bus.until_tried_without_counting().await;
    // The client would take a message, and the sink would wait for the acknowledgement.
    assert!(since.elapsed() < Duration::from_secs(5));

    let _server = nats::Server::start(port, folder.path());
    bus.until_sent().await;
    relay.stop().await;
    let mut stream = nats::create_stream(&context, &name, NO_WINDOW).await;
    let labels = ["a", "b"].map(|round| (0..20).map(move |n| format!("{round}{n:02}")));
    for (number, label) in (1..).zip(labels.into_iter().flatten()) {
        assert_eq!(*nats::nth(&stream, number).await.payload, *label.as_bytes());
    } // None was kept by the client meanwhile, and sent beside the relay's next attempt.
    let info = stream.info().await.expect("facts");
    assert_eq!(info.state.messages, 40);
}

#[tokio::test]
#[cfg_attr(not(feature = "nats-server"), ignore = "needs NATS: run scripts/test")]
async fn what_nats_does_not_confirm_was_not_sent() {
    let (bus, name) = (Bus::start(Kind::Sqlite).await, name());
    let line = nats::mute_line().await;
    let context = nats::connect(&nats::url()).await;
    let mut stream = nats::create_stream(&context, &name, WINDOW).await;
    let muted = nats::connect(&format!("nats://127.0.0.1:{}", line.port())).await;
    let sink = JetStream::new(muted);
    let topic = format!("{name}.paid");
    bus.publish([to(&topic, "before")]).await;
    bus.until_sent_by(&sink).await;

    line.mute();
    let ids = bus.publish([to(&topic, "x")]).await;
    bus.assert_unconfirmed_until_dead(&sink).await;

    line.unmute();
    assert!(bus.resend(ids[0]).await);
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    // Each attempt arrived, with the same id, so that the stream has kept one.
    let info = stream.info().await.expect("facts");
    assert_eq!(info.state.messages, 2);
    let headers = nats::nth(&stream, 2).await.headers;
    assert_eq!(
        headers.get("Nats-Msg-Id").map(ToString::to_string),
        Some(ids[0].to_string())
    );
}
