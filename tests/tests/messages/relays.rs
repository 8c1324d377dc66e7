//! Relays in the background, and several at once.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use futures_util::poll;
use idem_runtime::outbox::{Envelope, Relay, Sink, SinkError};
use idem_runtime::{Idempotency, Lease, Once, idempotent, outbox};
use idem_tests::app::{Handle, Setting};
use idem_tests::database::Pool;
use idem_tests::proxy::Fault;
use idem_tests::{Gate, Kind};
use sqlx::{PgConnection, Postgres};
use tower::ServiceExt;

use crate::fixture::{Bus, Recorder, TUNING, Tuning, label, message, spawn};

stamp!(
    two_relays_lose_nothing_repeat_nothing_and_keep_the_order,
    a_relay_that_stops_settles_what_it_publishes,
    a_relay_without_a_word_is_taken_over,
    a_relay_that_was_taken_over_marks_nothing,
);
stamp!(postgres:
    a_failure_whose_commit_is_unknown_counts_once,
    a_verdict_that_is_not_committed_is_written_again,
    a_claim_that_comes_through_for_nobody_is_given_back,
    a_claim_that_fails_leaves_no_message_without_a_verdict,
    a_commit_wakes_the_relay,
    a_commit_wakes_the_relay_of_a_table_of_another_name,
    work_wakes_the_relay_and_commits_without_a_notification,
    a_step_wakes_the_relay_while_its_handler_runs,
);

/// A relay that finds nothing by itself while a test runs.
const RARELY: Tuning = Tuning {
    poll: Duration::from_hours(1),
    timeout: Duration::from_hours(1),
    lease: Duration::from_hours(3),
    ..TUNING
};

const KEYS: usize = 5;
const MESSAGES: usize = 30;

async fn two_relays_lose_nothing_repeat_nothing_and_keep_the_order(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    let other = bus.another_handle().await;
    let relays = [
        spawn(&bus.handle, &sink, Tuning::default()),
        spawn(&other, &sink, Tuning::default()),
    ];
    for n in 0..MESSAGES {
        let batch = (0..KEYS).map(|key| message(&key.to_string(), &format!("{key}-{n:03}")));
        bus.publish(batch).await;
    }
    sink.until_confirmed(KEYS * MESSAGES).await;
    for relay in relays {
        relay.stop().await;
    }

    let attempts = sink.attempts();
    let ids: HashSet<_> = attempts.iter().map(|envelope| envelope.id).collect();
    assert_eq!(
        (ids.len(), attempts.len()),
        (KEYS * MESSAGES, KEYS * MESSAGES)
    );
    let mut by_key = BTreeMap::<_, Vec<_>>::new();
    for envelope in &attempts {
        by_key
            .entry(envelope.message.key.clone())
            .or_default()
            .push(label(envelope));
    }
    for (key, labels) in by_key {
        assert!(labels.is_sorted(), "{key:?}: {labels:?}");
    }
    let unsent = "select count(*) from outbox where state <> 2";
    assert_eq!(bus.pool.number(unsent).await, 0);
}

async fn a_relay_that_stops_settles_what_it_publishes(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    sink.gate.close();
    bus.publish([message("a", "a1"), message("a", "a2")]).await;
    let relay = spawn(&bus.handle, &sink, Tuning::default());
    sink.gate.until_arrived(1).await;

    // Asked to stop before the gate opens, however busy the machine is.
    let mut stopping = pin!(relay.stop());
    assert!(poll!(&mut stopping).is_pending());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        poll!(&mut stopping).is_pending(),
        "it left what it publishes"
    );
    sink.gate.open();
    stopping.await;

    assert_eq!(sink.labels(), ["a1"]);
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    assert_eq!(sink.labels(), ["a1", "a2"]);
}

/// What a killed process leaves is a lease; here it is left by hand.
async fn a_relay_without_a_word_is_taken_over(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    bus.publish([message("a", "a1"), message("a", "a2")]).await;
    let leave = match kind {
        Kind::Postgres => {
            "update outbox set claim = 1, locked_until = clock_timestamp() + interval '1 hour' \
             where id = 1"
        }
        _ => {
            "update outbox set claim = 1, \
             locked_until = cast(unixepoch('subsec') * 1000 as integer) + 3600000 where id = 1"
        }
    };
    bus.pool.execute(leave).await;
    assert_eq!(
        bus.send(&sink, Tuning::default()).await,
        0,
        "a lease holds its key"
    );

    bus.pool
        .execute("update outbox set locked_until = created_at where claim = 1")
        .await;
    assert_eq!(bus.send(&sink, Tuning::default()).await, 2);
    let attempts: Vec<_> = sink
        .attempts()
        .iter()
        .map(|envelope| envelope.attempt)
        .collect();
    assert_eq!(
        (sink.labels(), attempts),
        (vec!["a1".into(), "a2".into()], vec![2, 1])
    );
}

/// Otherwise what was sent would be sent again after the lease.
async fn a_verdict_that_is_not_committed_is_written_again(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    let proxy = bus.database.proxy().await;
    let through = bus.database.connect_through(&proxy, 5, TUNING.timeout);
    let handle = Handle::new(&through.await, &[]);
    sink.gate.close();
    bus.publish([message("k", "x")]).await;
    let relay = spawn(&handle, &sink, RARELY);
    sink.gate.until_arrived(1).await;
    proxy.fail("commit", Fault::CutBefore);
    sink.gate.open();
    relay.stop().await;
    assert!(!proxy.is_armed(), "no commit was sent");
    assert_eq!(bus.sent().await, 1);
}

/// Written down again, since the first commit got no answer.
async fn a_failure_whose_commit_is_unknown_counts_once(kind: Kind) {
    let bus = Bus::start(kind).await;
    let proxy = bus.database.proxy().await;
    let through = bus.database.connect_through(&proxy, 5, TUNING.timeout);
    let handle = Handle::new(&through.await, &[]);
    let sink = Recorder::answering(|_| Err(SinkError::failed("not now")));
    sink.gate.close();
    bus.publish([message("k", "x")]).await;
    let patient = Tuning {
        backoff: Duration::from_mins(10),
        ..RARELY
    };
    let relay = spawn(&handle, &sink, patient);
    sink.gate.until_arrived(1).await;
    proxy.fail("commit", Fault::CutAfter);
    sink.gate.open();
    relay.stop().await;
    assert!(!proxy.is_armed(), "no commit was sent");
    let counted = "select count(*) from outbox where attempts = 1 and locked_until is null";
    assert_eq!(bus.pool.number(counted).await, 1);
}

/// No relay has died, so nothing is counted, and nothing waits for the end of the lease.
async fn a_claim_that_comes_through_for_nobody_is_given_back(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    let proxy = bus.database.proxy().await;
    let through = bus.database.connect_through(&proxy, 5, TUNING.timeout);
    let handle = Handle::new(&through.await, &[]);
    bus.publish([message("k", "x")]).await;
    let late = Gate::default();
    late.close();
    proxy.fail("commit", Fault::Delay(late.clone()));
    let relay = spawn(&handle, &sink, TUNING);
    late.until_arrived(1).await;
    let _ = proxy.round_trips();
    // It has given the claim up when it claims again.
    let claims = |sent: &String| sent.contains("with recursive due");
    while !proxy.round_trips().iter().any(claims) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    late.open();
    sink.until_confirmed(1).await;
    relay.stop().await;
    assert_eq!(sink.confirmed()[0].attempt, 1);
}

/// Keeps each message at a gate of its own.
#[derive(Clone, Default)]
struct TwoGates([Gate; 2]);

impl Sink for TwoGates {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        let gate = usize::from(label(envelope) == "second");
        self.0[gate].pass().await;
        Ok(())
    }
}

/// What is on its way when a claim fails gets its verdict.
async fn a_claim_that_fails_leaves_no_message_without_a_verdict(kind: Kind) {
    let bus = Bus::start(kind).await;
    let proxy = bus.database.proxy().await;
    let through = bus.database.connect_through(&proxy, 5, TUNING.timeout);
    let Handle::Postgres(handle) = Handle::new(&through.await, &[]) else {
        panic!("on PostgreSQL");
    };
    let sink = TwoGates::default();
    let [first, second] = &sink.0;
    for gate in &sink.0 {
        gate.close();
    }
    bus.publish(["first", "second"].map(|label| message(label, label)))
        .await;
    let sending = tokio::spawn(Relay::new(&handle, sink.clone()).send_due());
    first.until_arrived(1).await;
    second.until_arrived(1).await;
    proxy.fail("with recursive due", Fault::CutBefore);
    first.open();
    while proxy.is_armed() {
        tokio::task::yield_now().await;
    }
    // A relay that gives up now has given up before the second message is sent.
    tokio::time::sleep(Duration::from_millis(200)).await;
    second.open();
    let failed = sending.await.expect("no panic");
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(bus.sent().await, 2);
}

/// While the sink keeps what it gets, nothing else makes the relay look.
async fn a_commit_wakes_the_relay(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    sink.gate.close();
    let relay = spawn(&bus.handle, &sink, RARELY);
    for n in 1..=5 {
        bus.publish([message(&n.to_string(), "x")]).await;
        sink.gate.until_arrived(n).await;
    }
    sink.gate.open();
    relay.stop().await;
}

async fn a_commit_wakes_the_relay_of_a_table_of_another_name(kind: Kind) {
    let settings = [
        Setting::KeysTable("Keys_b"),
        Setting::StepsTable("Steps_b"),
        Setting::OutboxTable("Outbox_b"),
    ];
    let (bus, sink) = (Bus::with(kind, &settings).await, Recorder::new());
    sink.gate.close();
    let relay = spawn(&bus.handle, &sink, RARELY);
    let (Handle::Postgres(handle), Pool::Postgres(pool)) = (&bus.handle, &bus.pool) else {
        panic!("only PostgreSQL has notifications");
    };
    let outbox = handle.outbox();
    for n in 1..=5 {
        let mut tx = pool.begin().await.expect("a transaction");
        let written = outbox.publish(&mut tx, message(&n.to_string(), "x"));
        written.await.expect("a row");
        tx.commit().await.expect("a commit");
        sink.gate.until_arrived(n).await;
    }
    sink.gate.open();
    relay.stop().await;
    let sent = "select count(*) from outbox_b where state = 2";
    assert_eq!(bus.pool.number(sent).await, 5);
}

/// PostgreSQL lets one transaction with a notification commit at a time.
async fn work_wakes_the_relay_and_commits_without_a_notification(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    sink.gate.close();
    let relay = spawn(&bus.handle, &sink, RARELY);
    let one = bus.database.connect(1, Duration::from_secs(10)).await;
    let Handle::Postgres(handle) = Handle::new(&one, &[]) else {
        panic!("only PostgreSQL has notifications");
    };
    for n in 1..=5 {
        let key = n.to_string();
        let job = Once::new("jobs", "nightly", &key).expect("a job");
        let work = async move |tx: &mut PgConnection| {
            let id = outbox::publish(tx, message(&key, "x")).await;
            id.map(drop)
        };
        handle.once(job, work).await.expect("a run");
        sink.gate.until_arrived(n).await;
    }
    let waking = "select count(*) from pg_prepared_statements \
                  where statement like 'insert into outbox%' and statement like '%pg_notify%'";
    assert_eq!(one.number(waking).await, 0);
    let written = "select count(*) from pg_prepared_statements \
                   where statement like 'insert into outbox%'";
    assert_eq!(one.number(written).await, 1);
    sink.gate.open();
    relay.stop().await;
}

#[derive(Clone, FromRef)]
struct Shipping {
    idempotency: Idempotency<Postgres>,
    sink: Recorder,
}

#[idempotent(scope = "orders.ship", tenant = shared)]
async fn ship(State(shipping): State<Shipping>, lease: &Lease<Postgres>) -> StatusCode {
    let write = async |tx: &mut PgConnection| {
        let id = outbox::publish(tx, message("k", "x")).await;
        id.map(drop)
    };
    lease.transaction("write", write).await.expect("a message");
    shipping.sink.gate.until_arrived(1).await;
    StatusCode::CREATED
}

async fn a_step_wakes_the_relay_while_its_handler_runs(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    sink.gate.close();
    let relay = spawn(&bus.handle, &sink, RARELY);
    let Handle::Postgres(idempotency) = bus.handle.clone() else {
        panic!("only PostgreSQL has notifications");
    };
    let state = Shipping {
        idempotency,
        sink: sink.clone(),
    };
    let app = Router::new().route("/", post(ship)).with_state(state);
    let request = Request::post("/").header("idempotency-key", "k");
    let request = request.body(Body::empty()).expect("a request");
    let answer = app.oneshot(request).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CREATED);
    sink.gate.open();
    relay.stop().await;
}

async fn a_relay_that_was_taken_over_marks_nothing(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    sink.gate.close();
    bus.publish([message("k", "x")]).await;
    let relay = spawn(&bus.handle, &sink, Tuning::default());
    sink.gate.until_arrived(1).await;
    // As if its lease had run out, and another relay had claimed the row.
    bus.pool
        .execute("update outbox set claim = claim + 1")
        .await;
    sink.gate.open();
    relay.stop().await;
    let unsent = "select count(*) from outbox where state = 1 and locked_until is not null";
    assert_eq!(bus.pool.number(unsent).await, 1);
}
