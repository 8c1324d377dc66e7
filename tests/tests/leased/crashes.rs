//! Owners that die or stand still at every point of an order.

use idem_tests::Kind;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{POINTS, Psp, STORED};
use idem_tests::process::Door;
use serde_json::Value;

use crate::processes::{assert_charges, assert_once, order, retry, retry_in_time, serve, stop_at};

async fn an_order_survives_the_death_of_its_process_at_every_point(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let psp = Psp::start().await;
    let survivor = serve(&database, &psp, &[]).await;
    for point in POINTS.into_iter().chain([STORED]) {
        let doomed = serve(&database, &psp, &[]).await;
        let lost = stop_at(&doomed, point).await;
        doomed.kill().await;
        let answer = retry_in_time(&survivor, point).await;
        assert!(lost.answer_if_any().await.is_none());

        let attempt = if point == STORED { 1 } else { 2 };
        assert_eq!(answer.json::<Value>()["attempt"], attempt, "{point}");
        assert_eq!(answer.is_replay(), point == STORED, "{point}");
        let again = order(&survivor, point).await;
        assert!(
            again.is_replay() && again.body == answer.body,
            "{point}: {again:?}"
        );
        assert_once(&database, &psp, &answer, point).await;
    }
    assert_charges(&psp, POINTS.len() + 1).await;
}

/// The owner is cut off: its heartbeat stops, its lease ends, another one takes over, and then it
/// comes back and knows nothing of it.
async fn an_owner_that_comes_back_answers_what_the_new_owner_stored(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let psp = Psp::start().await;
    let second = serve(&database, &psp, &[]).await;
    for point in [
        "claimed",
        "reserved",
        "charging",
        "charged",
        "recorded",
        "confirmed",
    ] {
        let first = serve(&database, &psp, &[]).await;
        let slow = stop_at(&first, point).await;
        first.freeze().await;
        let answer = retry(&second, point).await;
        assert_eq!(answer.json::<Value>()["attempt"], 2, "{point}");

        first.thaw().await;
        first.open(Door::Point(point)).await;
        slow.answer().await.assert_replays(&answer);
        assert_once(&database, &psp, &answer, point).await;
    }
    assert_charges(&psp, 6).await;
}

stamp!(
    an_order_survives_the_death_of_its_process_at_every_point,
    an_owner_that_comes_back_answers_what_the_new_owner_stored,
);
