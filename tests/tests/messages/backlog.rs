//! A key with a long backlog: it holds up neither the relay nor the other keys.

use std::time::Duration;

use idem_runtime::outbox::{Message, SinkError};
use idem_tests::Kind;

use crate::fixture::{Bus, Recorder, Tuning, label, message};

stamp!(a_long_backlog_of_a_key_holds_up_no_other);

/// A relay that compared each row with each other of its key would run into its own time limit.
const BACKLOG: usize = 20_000;

async fn a_long_backlog_of_a_key_holds_up_no_other(kind: Kind) {
    let bus = Bus::start(kind).await;
    bus.publish([message("a", "a")]).await;
    let id = match kind {
        Kind::Postgres => "md5(random()::text)",
        Kind::Sqlite | Kind::SqliteInMemory => "lower(hex(randomblob(16)))",
    };
    bus.pool
        .execute(&format!(
            "with recursive copies (n) as (\
             select 1 union all select n + 1 from copies where n < {BACKLOG}) \
             insert into outbox (message_id, topic, key, headers, payload, state, attempts, claim, \
             created_at, due_at) \
             select {id}, topic, key, headers, payload, state, attempts, claim, created_at, due_at \
             from outbox, copies"
        ))
        .await;
    // What the planner then knows of the table must not lead it astray.
    bus.pool.execute("analyze outbox").await;
    let others = 0..40;
    let keyed = others.clone().map(|n| message(&n.to_string(), "another"));
    let without = others.clone().map(|_| Message {
        key: None,
        ..message("", "without a key")
    });
    bus.publish(keyed.chain(without)).await;

    let sink = Recorder::answering(|envelope| match envelope.message.key.as_deref() {
        Some("a") => Err(SinkError::failed("not now")),
        _ => Ok(()),
    });
    let patient = Tuning {
        backoff: Duration::from_mins(10),
        ..Tuning::default()
    };
    assert_eq!(bus.send(&sink, patient).await, 2 * 40);
    let attempts = sink.attempts();
    let of_the_backlog = attempts.iter().filter(|envelope| label(envelope) == "a");
    assert_eq!(of_the_backlog.count(), 1);
}
