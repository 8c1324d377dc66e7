//! The outbox and one relay: what leaves, when, and what becomes of what cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_runtime::Backend;
use idem_runtime::outbox::{self, InvalidMessage, Message, Relay, Sink, SinkError, in_process};
use idem_tests::Kind;
use idem_tests::app::{Handle, Setting};
use idem_tests::database::Pool;

use crate::fixture::{Bus, Recorder, Tuning, label, message, spawn};

stamp!(
    a_message_leaves_once_and_whole,
    a_message_leaves_from_a_table_of_another_name,
    a_message_of_a_transaction_that_rolls_back_never_leaves,
    an_invalid_message_touches_nothing,
    a_failure_holds_back_its_key_and_no_other,
    the_pause_grows_with_each_failure,
    a_poison_message_becomes_a_dead_letter_and_can_be_resent,
    a_refused_message_is_a_dead_letter_at_once,
    an_outage_counts_no_attempt,
    sent_rows_are_swept_and_others_stay,
    a_consumer_that_takes_nothing_costs_no_attempt,
    a_consumer_that_is_behind_costs_no_attempt,
    a_dead_letter_that_cannot_be_read_hides_no_other,
    no_lease_is_too_short,
    no_duration_is_too_long,
    a_lower_limit_keeps_the_error,
    a_resent_message_does_not_overtake_one_on_its_way,
);
stamp!(postgres:
    a_claim_that_comes_too_late_pauses_the_relay,
    a_dead_letter_is_resent_whatever_the_default_of_the_database_is,
    a_row_that_commits_late_is_not_skipped,
    a_row_that_commits_late_does_not_overtake_one_on_its_way,
);

async fn a_message_leaves_once_and_whole(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    let written = Message {
        topic: "order.paid".into(),
        key: None,
        headers: [("content-type".into(), "text/plain".into())].into(),
        payload: vec![0, 255, 10].into(),
    };
    let ids = bus.publish([written.clone()]).await;
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    assert_eq!(bus.send(&sink, Tuning::default()).await, 0);

    let confirmed = sink.confirmed();
    assert_eq!(confirmed.len(), 1);
    assert_eq!(confirmed[0].message, written);
    assert_eq!((confirmed[0].id, confirmed[0].attempt), (ids[0], 1));
    let age = confirmed[0].created_at.elapsed().expect("in the past");
    assert!(age < Duration::from_mins(5), "{age:?}");
}

async fn a_message_leaves_from_a_table_of_another_name(kind: Kind) {
    let settings = [Setting::OutboxTable("letters")];
    let (bus, sink) = (Bus::with(kind, &settings).await, Recorder::new());
    let id = match (&bus.handle, &bus.pool) {
        (Handle::Postgres(handle), Pool::Postgres(pool)) => {
            let mut tx = pool.begin().await.expect("a transaction");
            let id = handle.outbox().publish(&mut tx, message("k", "x")).await;
            tx.commit().await.expect("a commit");
            id
        }
        (Handle::Sqlite(handle), Pool::Sqlite(pool)) => {
            let mut tx = pool.begin().await.expect("a transaction");
            let id = handle.outbox().publish(&mut tx, message("k", "x")).await;
            tx.commit().await.expect("a commit");
            id
        }
        _ => panic!("two databases"),
    };
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    assert_eq!(sink.confirmed()[0].id, id.expect("a row"));
    assert_eq!(bus.pool.number("select count(*) from letters").await, 1);
}

async fn a_message_of_a_transaction_that_rolls_back_never_leaves(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    match &bus.pool {
        Pool::Postgres(pool) => {
            let mut tx = pool.begin().await.expect("a transaction");
            outbox::publish(&mut tx, message("k", "x"))
                .await
                .expect("a row");
            tx.rollback().await.expect("a rollback");
        }
        Pool::Sqlite(pool) => {
            let mut tx = pool.begin().await.expect("a transaction");
            outbox::publish(&mut tx, message("k", "x"))
                .await
                .expect("a row");
            tx.rollback().await.expect("a rollback");
        }
    }
    assert_eq!(bus.send(&sink, Tuning::default()).await, 0);
    assert_eq!((sink.attempts().len(), bus.rows().await), (0, 0));
}

async fn an_invalid_message_touches_nothing(kind: Kind) {
    let bus = Bus::start(kind).await;
    let bad = Message {
        topic: String::new(),
        ..message("k", "x")
    };
    let refused = match &bus.pool {
        Pool::Postgres(pool) => {
            let mut tx = pool.begin().await.expect("a transaction");
            outbox::publish(&mut *tx, bad).await
        }
        Pool::Sqlite(pool) => {
            let mut tx = pool.begin().await.expect("a transaction");
            outbox::publish(&mut *tx, bad).await
        }
    };
    let Err(sqlx::Error::Encode(why)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(why.downcast_ref(), Some(&InvalidMessage::Topic));
}

async fn a_row_that_commits_late_is_not_skipped(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    let Pool::Postgres(pool) = &bus.pool else {
        panic!("only PostgreSQL has two writers");
    };
    let mut late = pool.begin().await.expect("a transaction");
    outbox::publish(&mut late, message("k", "late"))
        .await
        .expect("the lower id");
    bus.publish([message("k", "early")]).await;
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    late.commit().await.expect("a commit");
    assert_eq!(bus.send(&sink, Tuning::default()).await, 1);
    assert_eq!(sink.labels(), ["early", "late"]);
}

async fn a_failure_holds_back_its_key_and_no_other(kind: Kind) {
    let bus = Bus::start(kind).await;
    let fails = Arc::new(AtomicUsize::new(1));
    let sink = Recorder::answering({
        let fails = Arc::clone(&fails);
        move |envelope| match label(envelope).as_str() {
            "a1" if fails.swap(0, Ordering::SeqCst) > 0 => Err(SinkError::failed("not now")),
            _ => Ok(()),
        }
    });
    let all = [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")];
    bus.publish(all.map(|(key, label)| message(key, label)))
        .await;
    let patient = Tuning {
        backoff: Duration::from_mins(10),
        ..Tuning::default()
    };
    assert_eq!(bus.send(&sink, patient).await, 2);
    assert_eq!(sink.labels(), ["b1", "b2"]);

    bus.end_pauses().await;
    assert_eq!(bus.send(&sink, patient).await, 2);
    assert_eq!(sink.labels(), ["b1", "b2", "a1", "a2"]);
}

async fn the_pause_grows_with_each_failure(kind: Kind) {
    let bus = Bus::start(kind).await;
    let sink = Recorder::answering(|_| Err(SinkError::failed("never")));
    bus.publish([message("k", "x")]).await;
    let tuning = Tuning {
        backoff: Duration::from_secs(400),
        ..Tuning::default()
    };
    let pause = match kind {
        Kind::Postgres => "select extract(epoch from due_at - clock_timestamp())::int8 from outbox",
        _ => "select due_at / 1000 - unixepoch() from outbox",
    };
    let mut longest = 0;
    for expected in [400, 800, 1_600] {
        bus.send(&sink, tuning).await;
        let pause = bus.pool.number(pause).await;
        assert!(
            pause > longest && pause <= expected,
            "{pause} of {expected}"
        );
        longest = expected * 3 / 5;
        bus.end_pauses().await;
    }
}

async fn a_poison_message_becomes_a_dead_letter_and_can_be_resent(kind: Kind) {
    let bus = Bus::start(kind).await;
    let poison = Arc::new(AtomicUsize::new(1));
    let sink = Recorder::answering({
        let poison = Arc::clone(&poison);
        move |envelope| match label(envelope).as_str() {
            "poison" if poison.load(Ordering::SeqCst) > 0 => Err(SinkError::failed("bitter")),
            _ => Ok(()),
        }
    });
    let ids = bus
        .publish([message("k", "poison"), message("k", "next")])
        .await;
    let tuning = Tuning {
        max_attempts: 3,
        ..Tuning::default()
    };
    for _ in 0..3 {
        bus.end_pauses().await;
        bus.send(&sink, tuning).await;
    }
    let attempts: Vec<_> = sink
        .attempts()
        .iter()
        .map(|envelope| envelope.attempt)
        .collect();
    assert_eq!(attempts[..3], [1, 2, 3]);
    assert_eq!(sink.labels(), ["next"], "a dead letter holds nobody back");

    let dead = bus.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (dead[0].envelope.id, label(&dead[0].envelope).as_str()),
        (ids[0], "poison")
    );
    assert!(
        dead[0]
            .error
            .as_deref()
            .is_some_and(|why| why.contains("bitter")),
        "{dead:?}"
    );

    poison.store(0, Ordering::SeqCst);
    assert_eq!(bus.send(&sink, tuning).await, 0, "not by itself");
    assert!(bus.resend(ids[0]).await);
    assert!(!bus.resend(ids[0]).await, "it is no dead letter any more");
    assert_eq!(bus.send(&sink, tuning).await, 1);
    assert_eq!(sink.labels(), ["next", "poison"]);
    let resent = &sink.confirmed()[1];
    assert_eq!((resent.id, resent.attempt), (ids[0], 1));
}

async fn a_refused_message_is_a_dead_letter_at_once(kind: Kind) {
    let bus = Bus::start(kind).await;
    let sink = Recorder::answering(|_| Err(SinkError::refused("too large")));
    bus.publish([message("k", "x")]).await;
    bus.send(&sink, Tuning::default()).await;
    assert_eq!(
        (sink.attempts().len(), bus.dead_letters().await.len()),
        (1, 1)
    );
}

async fn a_dead_letter_is_resent_whatever_the_default_of_the_database_is(kind: Kind) {
    let bus = Bus::start(kind).await;
    let sink = Recorder::answering(|_| Err(SinkError::refused("no")));
    let ids = bus.publish([message("k", "x")]).await;
    bus.send(&sink, Tuning::default()).await;
    bus.pool
        .execute(
            "do $$ begin execute format('alter database %I set default_transaction_read_only = on', \
             current_database()); end $$",
        )
        .await;
    // A connection keeps the default that it began with.
    let Handle::Postgres(handle) = bus.another_handle().await else {
        panic!("only PostgreSQL has such a default");
    };
    let resent = handle.outbox().resend(ids[0]).await;
    assert!(resent.expect("an answer"));
    assert_eq!(bus.send(&Recorder::new(), Tuning::default()).await, 1);
}

async fn an_outage_counts_no_attempt(kind: Kind) {
    let bus = Bus::start(kind).await;
    let down = Arc::new(AtomicUsize::new(5));
    let sink = Recorder::answering({
        let down = Arc::clone(&down);
        move |_| match down.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
            Ok(_) => Err(SinkError::unavailable("no broker")),
            Err(_) => Ok(()),
        }
    });
    bus.publish([message("k", "1"), message("k", "2")]).await;
    let tuning = Tuning {
        max_attempts: 2,
        ..Tuning::default()
    };
    for _ in 0..6 {
        bus.send(&sink, tuning).await;
    }
    assert_eq!(sink.labels(), ["1", "2"]);
    assert_eq!(bus.dead_letters().await.len(), 0);
}

async fn sent_rows_are_swept_and_others_stay(kind: Kind) {
    let bus = Bus::start(kind).await;
    let sink = Recorder::answering(|envelope| match label(envelope).as_str() {
        "dead" => Err(SinkError::refused("no")),
        "waits" => Err(SinkError::failed("later")),
        _ => Ok(()),
    });
    let short = Tuning {
        retention: Duration::ZERO,
        backoff: Duration::from_mins(10),
        ..Tuning::default()
    };
    bus.publish(["gone", "dead", "waits"].map(|label| message(label, label)))
        .await;
    bus.send(&sink, short).await;
    bus.publish([message("kept", "kept")]).await;
    bus.send(&sink, Tuning::default()).await;

    // More than a batch.
    let (numbers, columns) = (
        "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 1500)",
        "message_id, topic, key, headers, payload, state, attempts, claim, created_at, due_at, \
         sent_at, expires_at",
    );
    let again = format!(
        "insert into outbox ({columns}) {numbers} select {columns} from outbox, numbers \
         where key = 'gone'"
    );
    bus.pool.execute(&again).await;
    bus.handle.sweep().await.expect("a sweep");
    assert_eq!(bus.rows().await, 3);
    let gone = "select count(*) from outbox where key = 'gone'";
    assert_eq!(bus.pool.number(gone).await, 0);
}

async fn a_consumer_that_takes_nothing_costs_no_attempt(kind: Kind) {
    let bus = Bus::start(kind).await;
    let (sink, mut deliveries) = in_process(16);
    bus.publish(["a", "b"].map(|key| message(key, "x"))).await;
    let hasty = Tuning {
        timeout: Duration::from_millis(100),
        ..Tuning::default()
    };
    for _ in 0..2 {
        assert_eq!(bus.send(&sink, hasty).await, 0);
    }
    let consumer = tokio::spawn(async move {
        let mut attempts = Vec::new();
        while let Some(delivery) = deliveries.recv().await {
            attempts.push(delivery.envelope.attempt);
            delivery.acknowledge();
        }
        attempts
    });
    assert_eq!(bus.send(&sink, Tuning::default()).await, 2);
    drop(sink);
    // None of those that nobody waits for any more.
    assert_eq!(consumer.await.expect("no panic"), [1, 1]);
}

/// It needs 1.6 seconds for what is published at once, and the relay waits for one.
async fn a_consumer_that_is_behind_costs_no_attempt(kind: Kind) {
    let bus = Bus::start(kind).await;
    let (sink, mut deliveries) = in_process(16);
    let tuning = Tuning {
        max_attempts: 1,
        timeout: Duration::from_secs(1),
        ..Tuning::default()
    };
    bus.publish((0..32).map(|key| message(&key.to_string(), "x")))
        .await;
    let relay = spawn(&bus.handle, &sink, tuning);
    let consumer = tokio::spawn(async move {
        while let Some(delivery) = deliveries.recv().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
            delivery.acknowledge();
        }
    });
    bus.until_sent().await;
    relay.stop().await;
    drop(sink);
    consumer.await.expect("no panic");
}

async fn a_dead_letter_that_cannot_be_read_hides_no_other(kind: Kind) {
    let bus = Bus::start(kind).await;
    let sink = Recorder::answering(|_| Err(SinkError::refused("no")));
    let ids = bus
        .publish(["a", "b", "c"].map(|key| message(key, "x")))
        .await;
    bus.send(&sink, Tuning::default()).await;
    let spoil = "update outbox set headers = '{\"n\":1}' where id = 1; \
                 update outbox set message_id = 'none' where id = 2";
    bus.pool.execute(spoil).await;
    let listed: Vec<_> = bus
        .dead_letters()
        .await
        .iter()
        .map(|letter| letter.envelope.id)
        .collect();
    assert_eq!(listed, [ids[2]]);
}

async fn no_lease_is_too_short(kind: Kind) {
    let bus = Bus::start(kind).await;
    bus.publish([message("k", "x")]).await;
    let no_lease = Tuning {
        lease: Duration::ZERO,
        ..Tuning::default()
    };
    let recorder = Recorder::new();
    // A machine under load may take longer for a claim than the shortest lease.
    let sending = async { while bus.send(&recorder, no_lease).await == 0 {} };
    let sent = tokio::time::timeout(Duration::from_secs(30), sending).await;
    assert!(sent.is_ok(), "nothing was sent");
}

/// Each statement of the relay takes longer than the lease.
async fn a_claim_that_comes_too_late_pauses_the_relay(kind: Kind) {
    let (bus, sink) = (Bus::start(kind).await, Recorder::new());
    let slow = "create function slow() returns trigger language plpgsql as \
                $$ begin perform pg_sleep(0.2); return new; end $$; \
                create trigger slow before update on outbox for each row execute function slow()";
    bus.pool.execute(slow).await;
    bus.publish([message("k", "x")]).await;
    let short = Tuning {
        lease: Duration::from_millis(100),
        ..Tuning::default()
    };
    let sending = bus.send(&sink, short);
    let sent = tokio::time::timeout(Duration::from_secs(20), sending).await;
    assert_eq!((sent.ok(), sink.attempts().len()), (Some(0), 0));
    let waits = "select count(*) from outbox where state = 1 and attempts = 0";
    assert_eq!(bus.pool.number(waits).await, 1);
}

async fn no_duration_is_too_long(kind: Kind) {
    let bus = Bus::start(kind).await;
    let sink = Recorder::answering(|envelope| match label(envelope).as_str() {
        "fails" => Err(SinkError::failed("no")),
        "waits" => Err(SinkError::unavailable("nobody there")),
        _ => Ok(()),
    });
    bus.publish(["fails", "waits", "sent"].map(|label| message(label, label)))
        .await;
    let sent = match &bus.handle {
        Handle::Postgres(handle) => for_ever(Relay::new(handle, sink)).send_due().await,
        Handle::Sqlite(handle) => for_ever(Relay::new(handle, sink)).send_due().await,
    };
    assert_eq!(sent.expect("a relay that claims"), 1);
    let right = "select count(*) from outbox where locked_until is null and \
                 case key when 'fails' then state = 1 and due_at > created_at \
                 when 'waits' then state = 1 and attempts = 0 \
                 when 'sent' then state = 2 and expires_at > sent_at end";
    assert_eq!(bus.pool.number(right).await, 3);
}

fn for_ever<DB: Backend, S: Sink>(relay: Relay<DB, S>) -> Relay<DB, S> {
    let most = Duration::MAX;
    let relay = relay.lease(most).timeout(most).poll(most);
    relay.backoff(most, most).retention(most)
}

async fn a_lower_limit_keeps_the_error(kind: Kind) {
    let bus = Bus::start(kind).await;
    let sink = Recorder::answering(|_| Err(SinkError::failed("bitter")));
    bus.publish([message("k", "x")]).await;
    let patient = Tuning {
        backoff: Duration::from_mins(10),
        ..Tuning::default()
    };
    bus.send(&sink, patient).await;
    bus.end_pauses().await;
    let stricter = Tuning {
        max_attempts: 1,
        ..patient
    };
    bus.send(&sink, stricter).await;
    let why = bus.dead_letters().await.remove(0).error.unwrap_or_default();
    assert!(why.contains("bitter"), "{why}");
    assert_eq!(sink.attempts().len(), 1);
}

async fn a_resent_message_does_not_overtake_one_on_its_way(kind: Kind) {
    let bus = Bus::start(kind).await;
    let refusing = Recorder::answering(|_| Err(SinkError::refused("no")));
    let ids = bus.publish([message("k", "dead")]).await;
    bus.send(&refusing, Tuning::default()).await;
    bus.publish([message("k", "next")]).await;
    assert_sent_after_what_is_on_its_way(&bus, "dead", async || {
        assert!(bus.resend(ids[0]).await);
    })
    .await;
}

async fn a_row_that_commits_late_does_not_overtake_one_on_its_way(kind: Kind) {
    let bus = Bus::start(kind).await;
    let Pool::Postgres(pool) = &bus.pool else {
        panic!("only PostgreSQL has two writers");
    };
    let mut late = pool.begin().await.expect("a transaction");
    outbox::publish(&mut late, message("k", "late"))
        .await
        .expect("the lower id");
    bus.publish([message("k", "next")]).await;
    let commit = async move || late.commit().await.expect("a commit");
    assert_sent_after_what_is_on_its_way(&bus, "late", commit).await;
}

/// While `next` is on its way, lets an earlier row of its key come.
async fn assert_sent_after_what_is_on_its_way(bus: &Bus, earlier: &str, come: impl AsyncFnOnce()) {
    let sink = Recorder::new();
    sink.gate.close();
    let relay = spawn(&bus.handle, &sink, Tuning::default());
    sink.gate.until_arrived(1).await;
    come().await;
    // What was due before it was claimed with it, or before.
    bus.publish([message("other", "other")]).await;
    sink.gate.until_arrived(2).await;
    let claimed = "select count(*) from outbox where key = 'k' and locked_until is not null";
    assert_eq!(bus.pool.number(claimed).await, 1);

    sink.gate.open();
    bus.until_sent().await;
    relay.stop().await;
    let labels = sink.labels().into_iter().filter(|label| label != "other");
    assert_eq!(labels.collect::<Vec<_>>(), ["next", earlier]);
}
