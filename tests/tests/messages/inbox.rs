//! Consumers: each message's effect once, however often it is delivered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idem_runtime::{OnceError, Outcome};
use idem_tests::app::Handle;
use idem_tests::consumer::{Conduct, Paid, deliver};
use idem_tests::database::TestDatabase;
use idem_tests::proxy::Fault;
use idem_tests::{Gate, Kind};

use crate::fixture::Bus;

stamp!(
    a_repeated_delivery_replays,
    deliveries_at_once_have_one_effect,
    a_failure_rolls_back_and_the_next_delivery_runs,
    a_delivery_after_a_lost_acknowledgement_replays_in_another_process,
    another_message_with_the_same_key_is_a_mismatch,
    a_message_without_a_usable_key_is_refused,
);
stamp!(postgres: an_unknown_commit_is_found_out_by_the_next_delivery);

fn paid(id: &str) -> Paid {
    Paid {
        id: id.into(),
        account: "a".into(),
        label: id.into(),
    }
}

async fn a_repeated_delivery_replays(kind: Kind) {
    let (bus, conduct) = (Bus::start(kind).await, Conduct::default());
    let first = deliver(&bus.handle, &conduct, paid("m")).await;
    assert_eq!(first.expect("the first"), Outcome::Executed(1));
    let second = deliver(&bus.handle, &conduct, paid("m")).await;
    assert_eq!(second.expect("the second"), Outcome::Replayed(1));
    let other = deliver(&bus.handle, &conduct, paid("other")).await;
    assert_eq!(other.expect("another"), Outcome::Executed(2));
    assert_eq!(bus.database.effects().await, 2);
}

async fn deliveries_at_once_have_one_effect(kind: Kind) {
    let (bus, conduct) = (Arc::new(Bus::start(kind).await), Conduct::default());
    conduct.gate.close();
    let deliver_it = || {
        let (bus, conduct) = (Arc::clone(&bus), conduct.clone());
        tokio::spawn(async move { deliver(&bus.handle, &conduct, paid("m")).await })
    };
    let first = deliver_it();
    conduct.gate.until_arrived(1).await;
    for _ in 0..8 {
        let duplicate = deliver_it().await.expect("no panic");
        assert!(
            matches!(duplicate, Err(OnceError::InProgress)),
            "{duplicate:?}"
        );
    }
    conduct.gate.open();
    let first = first.await.expect("no panic");
    assert_eq!(first.expect("the first"), Outcome::Executed(1));
    assert_eq!(bus.database.effects().await, 1);
}

async fn a_failure_rolls_back_and_the_next_delivery_runs(kind: Kind) {
    let (bus, conduct) = (Bus::start(kind).await, Conduct::default());
    conduct.failures.store(2, Ordering::SeqCst);
    for _ in 0..2 {
        let failed = deliver(&bus.handle, &conduct, paid("m")).await;
        assert!(matches!(failed, Err(OnceError::Work(_))), "{failed:?}");
        assert_eq!(
            (bus.database.effects().await, bus.database.keys().await),
            (0, 0)
        );
    }
    let next = deliver(&bus.handle, &conduct, paid("m")).await;
    assert_eq!(next.expect("the next"), Outcome::Executed(1));
    assert_eq!(bus.database.effects().await, 1);
}

async fn a_delivery_after_a_lost_acknowledgement_replays_in_another_process(kind: Kind) {
    let bus = Bus::start(kind).await;
    let first = deliver(&bus.handle, &Conduct::default(), paid("m")).await;
    assert_eq!(first.expect("the first"), Outcome::Executed(1));

    let other = bus.another_handle().await;
    let again = deliver(&other, &Conduct::default(), paid("m")).await;
    assert_eq!(again.expect("the next"), Outcome::Replayed(1));
    assert_eq!(bus.database.effects().await, 1);
}

async fn another_message_with_the_same_key_is_a_mismatch(kind: Kind) {
    let (bus, conduct) = (Bus::start(kind).await, Conduct::default());
    deliver(&bus.handle, &conduct, paid("m"))
        .await
        .expect("the first");
    let other = Paid {
        label: "other".into(),
        ..paid("m")
    };
    let other = deliver(&bus.handle, &conduct, other).await;
    assert!(matches!(other, Err(OnceError::Mismatch)), "{other:?}");
    assert_eq!(bus.database.effects().await, 1);
}

async fn a_message_without_a_usable_key_is_refused(kind: Kind) {
    let (bus, conduct) = (Bus::start(kind).await, Conduct::default());
    let refused = deliver(&bus.handle, &conduct, paid("")).await;
    assert!(
        matches!(refused, Err(OnceError::InvalidRequest(_))),
        "{refused:?}"
    );
    assert_eq!(bus.database.effects().await, 0);
}

async fn an_unknown_commit_is_found_out_by_the_next_delivery(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let direct = Handle::new(&database.connect(2, Duration::from_secs(10)).await, &[]);
    direct.migrate().await.expect("the tables are created");
    let proxy = database.proxy().await;
    let pool = database
        .connect_through(&proxy, 2, Duration::from_secs(1))
        .await;
    let (handle, conduct) = (Handle::new(&pool, &[]), Conduct::default());

    let reply = Gate::default();
    reply.close();
    proxy.fail("commit", Fault::Hold(reply.clone()));
    let lost = tokio::spawn({
        let (handle, conduct) = (handle.clone(), conduct.clone());
        async move { deliver(&handle, &conduct, paid("m")).await }
    });
    reply.until_arrived(1).await;
    proxy.cut();
    let lost = lost.await.expect("no panic");
    assert!(matches!(lost, Err(OnceError::OutcomeUnknown)), "{lost:?}");

    let next = deliver(&direct, &Conduct::default(), paid("m")).await;
    assert_eq!(next.expect("the next delivery"), Outcome::Replayed(1));
    assert_eq!(database.effects().await, 1);
}
