//! Relays and consumers in processes that are killed, as `kill -9` does.

use std::process::Stdio;
use std::time::{Duration, Instant};

use idem_runtime::outbox::Message;
use idem_tests::Kind;
use idem_tests::consumer::Paid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::fixture::{Bus, Recorder, Tuning};

const RELAY: &str = env!("CARGO_BIN_EXE_idem-test-relay");
const KEYS: usize = 8;
const MESSAGES: usize = 40;

fn start(bus: &Bus, stuck: bool) -> Child {
    let mut command = Command::new(RELAY);
    command
        .env("DATABASE_URL", bus.database.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    if stuck {
        command.env("STUCK", "1");
    }
    command.spawn().expect("the relay starts")
}

fn paid(key: usize, n: usize) -> Message {
    let event = Paid {
        id: format!("{key}-{n:03}"),
        account: key.to_string(),
        label: format!("{key}-{n:03}"),
    };
    Message::json("test", key.to_string(), &event).expect("JSON")
}

/// The crash between publishing and marking: the message comes again, with the same id.
async fn a_relay_killed_before_marking_sends_again_with_the_same_id(kind: Kind) {
    let bus = Bus::start(kind).await;
    let ids = bus.publish([paid(0, 0)]).await;
    let mut relay = start(&bus, true);
    let output = relay.stdout.take().expect("a pipe");
    let said = BufReader::new(output).lines().next_line().await;
    let said = said.expect("the pipe is open").expect("a line");
    assert_eq!(said, format!("published {}", ids[0]));
    relay.kill().await.expect("the relay is killed");

    let sink = Recorder::new();
    let begun = Instant::now();
    while bus.send(&sink, Tuning::default()).await == 0 {
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "nobody takes over"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sink.confirmed()[0].id, ids[0]);
    assert_eq!(bus.database.effects().await, 1);
}

async fn no_kill_loses_repeats_or_reorders_an_effect(kind: Kind) {
    let bus = Bus::start(kind).await;
    let mut relays = [start(&bus, false), start(&bus, false)];
    let mut kills = 0;
    for n in 0..MESSAGES {
        bus.publish((0..KEYS).map(|key| paid(key, n))).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if n % 4 == 3 {
            let which = usize::from(Uuid::new_v4().as_bytes()[0]) % relays.len();
            relays[which].kill().await.expect("a relay is killed");
            relays[which] = start(&bus, false);
            kills += 1;
        }
    }
    assert!(kills >= 10, "hardly anything was killed");
    let unsent = "select count(*) from outbox where state <> 2";
    let begun = Instant::now();
    while bus.pool.number(unsent).await > 0 {
        assert!(
            begun.elapsed() < Duration::from_mins(2),
            "not everything is sent"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let all = i64::try_from(KEYS * MESSAGES).expect("a small number");
    let labels = "select count(distinct label) from effects";
    assert_eq!(
        (bus.database.effects().await, bus.pool.number(labels).await),
        (all, all)
    );
    let out_of_order = "select count(*) from effects as a join effects as b \
                        on a.account = b.account and a.id < b.id and a.label > b.label";
    assert_eq!(bus.pool.number(out_of_order).await, 0);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_relay_killed_before_marking_sends_again_on_postgres() {
    a_relay_killed_before_marking_sends_again_with_the_same_id(Kind::Postgres).await;
}

#[tokio::test]
async fn a_relay_killed_before_marking_sends_again_on_sqlite() {
    a_relay_killed_before_marking_sends_again_with_the_same_id(Kind::Sqlite).await;
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_kill_loses_repeats_or_reorders_an_effect_on_postgres() {
    no_kill_loses_repeats_or_reorders_an_effect(Kind::Postgres).await;
}

#[tokio::test]
async fn no_kill_loses_repeats_or_reorders_an_effect_on_sqlite() {
    no_kill_loses_repeats_or_reorders_an_effect(Kind::Sqlite).await;
}
