//! The sink to RabbitMQ, with a real broker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_runtime::outbox::Message;
use idem_tests::Kind;
use idem_tests::broker::rabbitmq::scarce;
use idem_tests::broker::{name, rabbitmq};
use tokio::net::TcpListener;

use crate::fixture::{Bus, Tuning, message, spawn};

fn to(topic: &str, key: &str, label: &str) -> Message {
    Message {
        topic: topic.into(),
        ..message(key, label)
    }
}

#[tokio::test]
#[cfg_attr(
    not(feature = "rabbitmq-server"),
    ignore = "needs RabbitMQ: run scripts/test"
)]
async fn a_message_arrives_at_rabbitmq_with_its_id_and_its_headers() {
    let (bus, queue) = (Bus::start(Kind::Sqlite).await, name());
    let (_connection, channel) = rabbitmq::connect(&rabbitmq::url()).await;
    rabbitmq::create_queue(&channel, &queue).await;
    let mut sent = Message::json(&*queue, "k", &1).expect("JSON");
    sent.headers.insert("x-trace".into(), "t-1".into());
    let ids = bus.publish([sent]).await;
    let sink = Arc::new(rabbitmq::sink(&rabbitmq::url()));
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);

    let got = rabbitmq::next(&channel, &queue).await;
    assert_eq!(got.data, b"1");
    let text = |text: &Option<lapin::types::ShortString>| text.as_ref().map(ToString::to_string);
    let properties = &got.properties;
    assert_eq!(text(properties.message_id()), Some(ids[0].to_string()));
    assert_eq!(
        text(properties.content_type()).as_deref(),
        Some("application/json")
    );
    assert_eq!(*properties.delivery_mode(), Some(2));
    let headers = properties.headers().as_ref().expect("headers");
    let trace = headers.inner().get("x-trace").expect("the header");
    assert_eq!(*trace, lapin::types::AMQPValue::LongString("t-1".into()));
}

/// Many at once, half of them for a queue that does not exist: the broker says so with an answer that
/// comes between those about the others.
#[tokio::test]
#[cfg_attr(
    not(feature = "rabbitmq-server"),
    ignore = "needs RabbitMQ: run scripts/test"
)]
async fn only_what_a_queue_gets_was_sent() {
    let (bus, queue) = (Bus::start(Kind::Sqlite).await, name());
    let (_connection, channel) = rabbitmq::connect(&rabbitmq::url()).await;
    rabbitmq::create_queue(&channel, &queue).await;
    let nowhere = format!("{queue}-nowhere");
    let messages = (0..200).map(|n| {
        let topic = if n % 2 == 0 { &queue } else { &nowhere };
        to(topic, &n.to_string(), topic)
    });
    let ids = bus.publish(messages).await;
    let sink = Arc::new(rabbitmq::sink(&rabbitmq::url()));
    let once = Tuning {
        max_attempts: 1,
        ..Tuning::default()
    };
    assert_eq!(bus.send(&sink, once).await, 100);

    let dead = bus.dead_letters().await;
    let unroutable: HashSet<_> = dead.iter().map(|letter| letter.envelope.id).collect();
    let expected: HashSet<_> = ids.iter().skip(1).step_by(2).copied().collect();
    assert_eq!(unroutable, expected);
    let why = dead[0].error.clone().unwrap_or_default();
    assert!(why.contains("NO_ROUTE"), "{why}");

    // It can be resent when there is one.
    rabbitmq::create_queue(&channel, &nowhere).await;
    assert!(bus.resend(ids[1]).await);
    assert_eq!(bus.send(&sink, once).await, 1);
    let got = rabbitmq::next(&channel, &nowhere).await;
    let id = got
        .properties
        .message_id()
        .as_ref()
        .map(ToString::to_string);
    assert_eq!(id, Some(ids[1].to_string()));
}

#[tokio::test]
#[cfg_attr(
    not(feature = "rabbitmq-server"),
    ignore = "needs RabbitMQ: run scripts/test"
)]
async fn a_rabbitmq_that_is_away_costs_no_attempt() {
    let (bus, queue) = (Bus::start(Kind::Sqlite).await, name());
    let (_connection, channel) = rabbitmq::connect(&rabbitmq::url()).await;
    rabbitmq::create_queue(&channel, &queue).await;
    let line = rabbitmq::breaker().await;
    line.cut();
    let sink = Arc::new(rabbitmq::sink(&rabbitmq::url_at(line.port())));
    let tuning = Tuning {
        max_attempts: 2,
        backoff: Duration::from_millis(20),
        ..Tuning::default()
    };
    let relay = spawn(&bus.handle, &sink, tuning);
    for round in ["a", "b"] {
        line.cut();
        let label = |n: usize| format!("{round}{n:02}");
        bus.publish((0..20).map(|n| to(&queue, "k", &label(n))))
            .await;
        bus.until_tried_without_counting().await;
        line.mend();
        bus.until_sent().await;
        for n in 0..20 {
            let got = rabbitmq::next(&channel, &queue).await;
            assert_eq!(String::from_utf8_lossy(&got.data), label(n));
        }
    }
    relay.stop().await;
}

#[tokio::test]
#[cfg_attr(
    not(feature = "rabbitmq-server"),
    ignore = "needs RabbitMQ: run scripts/test"
)]
async fn what_rabbitmq_does_not_confirm_was_not_sent() {
    let (bus, queue) = (Bus::start(Kind::Sqlite).await, name());
    let (_connection, channel) = rabbitmq::connect(&rabbitmq::url()).await;
    rabbitmq::create_queue(&channel, &queue).await;
    let line = rabbitmq::mute_line().await;
    let sink = Arc::new(rabbitmq::sink(&rabbitmq::url_at(line.port())));
    bus.publish([to(&queue, "k", "before")]).await;
    bus.until_sent_by(&sink).await;

    line.mute();
    let ids = bus.publish([to(&queue, "k", "x")]).await;
    bus.assert_unconfirmed_until_dead(&sink).await;

    line.unmute();
    assert!(bus.resend(ids[0]).await);
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    assert_eq!(rabbitmq::next(&channel, &queue).await.data, b"before");
    // Each attempt arrived, with the same id.
    for _ in 0..3 {
        let got = rabbitmq::next(&channel, &queue).await;
        let id = got
            .properties
            .message_id()
            .as_ref()
            .map(ToString::to_string);
        assert_eq!(id, Some(ids[0].to_string()));
    }
}

/// Those of one key as well as one of each of many others, which are on their way when the broker
/// says for the first time that it takes nothing.
#[tokio::test]
#[cfg_attr(
    not(feature = "rabbitmq-server"),
    ignore = "needs RabbitMQ: run scripts/test"
)]
async fn a_rabbitmq_that_is_short_of_memory_costs_no_attempt_and_loses_nothing() {
    let (bus, queue) = (Bus::start(Kind::Sqlite).await, name());
    let (_connection, channel) = rabbitmq::connect(&scarce::url()).await;
    rabbitmq::create_queue(&channel, &queue).await;
    let sink = Arc::new(rabbitmq::sink(&scarce::url()));
    let tuning = Tuning {
        // One failure would make a dead letter.
        max_attempts: 1,
        backoff: Duration::from_millis(200),
        ..Tuning::default()
    };
    let relay = spawn(&bus.handle, &sink, tuning);
    bus.publish([to(&queue, "k", "before")]).await;
    bus.until_sent().await;
    assert_eq!(rabbitmq::next(&channel, &queue).await.data, b"before");

    scarce::run_short().await;
    let since = Instant::now();
    let in_order = (0..20).map(|n| to(&queue, "k", &format!("k{n:02}")));
    let others = (0..20).map(|n| to(&queue, &n.to_string(), &format!("o{n:02}")));
    let ids = bus.publish(in_order.chain(others)).await;
    bus.until_tried_without_counting().await;
    bus.until_none_is_on_its_way().await;
    let failed = "select count(*) from outbox where attempts > 0 or state = 3";
    assert_eq!(bus.pool.number(failed).await, 0);
    // The pause doubles each time, from the first one on.
    let claims = bus.pool.number("select max(claim) from outbox").await;
    let pauses = (1 << (claims - 1)) - 1;
    assert!(since.elapsed() >= tuning.backoff * pauses, "{claims} tries");
    assert_eq!(bus.sent().await, 1, "what it does not take was not sent");

    scarce::recover().await;
    bus.until_sent().await;
    relay.stop().await;
    let mut came: Vec<(String, String)> = Vec::new();
    let mut copies = HashMap::new();
    while came.len() < ids.len() {
        let got = rabbitmq::next(&channel, &queue).await;
        let id = got.properties.message_id().clone().expect("an id");
        let message = (String::from_utf8_lossy(&got.data).into(), id.to_string());
        *copies.entry(message.clone()).or_insert(0) += 1;
        if !came.contains(&message) {
            came.push(message);
        }
    }
    let labels = ["k", "o"].map(|what| (0..20).map(move |n| format!("{what}{n:02}")));
    let ids = ids.iter().map(ToString::to_string);
    let sent: Vec<_> = labels.into_iter().flatten().zip(ids).collect();
    // Those of one key in order, the others in any.
    came.sort_by_key(|(label, _)| label.starts_with('o'));
    came[20..].sort();
    assert_eq!(came, sent);
    // What was on its way when it ran short comes again, and nothing was sent in between.
    assert!(copies.values().all(|copies| *copies <= 2), "{copies:?}");
}

/// It is missing for every message, so that none of them is to blame.
#[tokio::test]
#[cfg_attr(
    not(feature = "rabbitmq-server"),
    ignore = "needs RabbitMQ: run scripts/test"
)]
async fn a_missing_exchange_costs_no_attempt() {
    let (bus, queue) = (Bus::start(Kind::Sqlite).await, name());
    let (_connection, channel) = rabbitmq::connect(&rabbitmq::url()).await;
    let sink = rabbitmq::sink(&rabbitmq::url()).exchange(&*queue);
    let sink = Arc::new(sink);
    bus.publish([to("paid", "k", "x")]).await;
    let tuning = Tuning {
        max_attempts: 2,
        ..Tuning::default()
    };
    for _ in 0..4 {
        assert_eq!(bus.send(&sink, tuning).await, 0);
    }
    assert_eq!(bus.pool.number("select sum(attempts) from outbox").await, 0);

    rabbitmq::create_queue(&channel, &queue).await;
    rabbitmq::bind(&channel, &queue, "paid").await;
    bus.until_sent_by(&sink).await;
    assert_eq!(rabbitmq::next(&channel, &queue).await.data, b"x");
}

/// It refuses whatever is sent, so that no message is to blame.
#[tokio::test]
#[cfg_attr(
    not(feature = "rabbitmq-server"),
    ignore = "needs RabbitMQ: run scripts/test"
)]
async fn a_rabbitmq_that_refuses_the_connection_costs_no_attempt() {
    let bus = Bus::start(Kind::Sqlite).await;
    bus.publish([to("paid", "k", "x")]).await;
    let tuning = Tuning {
        max_attempts: 2,
        ..Tuning::default()
    };
    let url = rabbitmq::url();
    let wrong_password = url.replacen("amqp://", "amqp://guest:wrong@", 1);
    let no_such_host = url.replacen("%2f", "nowhere", 1);
    for url in [wrong_password, no_such_host] {
        let sink = Arc::new(rabbitmq::sink(&url));
        for _ in 0..2 {
            assert_eq!(bus.send(&sink, tuning).await, 0);
        }
        let counted = bus.pool.number("select sum(attempts) from outbox").await;
        assert_eq!(counted, 0, "{url}");
    }
}

/// The relay's time-out is shorter than what the sink gives a broker that answers.
#[tokio::test]
async fn a_rabbitmq_that_says_nothing_costs_no_attempt() {
    let bus = Bus::start(Kind::Sqlite).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    let sink = Arc::new(rabbitmq::sink(&rabbitmq::url_at(port)));
    bus.publish([to("paid", "k", "x")]).await;
    let hasty = Tuning {
        timeout: Duration::from_millis(500),
        ..Tuning::default()
    };
    for _ in 0..2 {
        assert_eq!(bus.send(&sink, hasty).await, 0);
    }
    let counted = bus.pool.number("select sum(attempts) from outbox").await;
    assert_eq!(counted, 0);
}
