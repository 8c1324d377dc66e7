//! The connection to PostgreSQL breaks at a commit: before it reaches the server, after the server
//! has committed, or without anybody noticing.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::FutureExt;
use idem_tests::client::Pending;
use idem_tests::leased::LeasedApp;
use idem_tests::proxy::Fault;
use idem_tests::{Answer, Gate, Kind};
use serde_json::Value;
use tokio::time::timeout;

use crate::end_leases;
use crate::line::Line;

stamp!(
    postgres: a_claim_whose_commit_is_unknown_knows_its_row,
    a_claim_that_is_not_committed_runs_nothing,
    a_claim_that_is_not_committed_does_not_take_another_for_its_own,
    a_step_whose_commit_is_unknown_has_one_effect,
    a_step_that_is_not_committed_has_one_effect,
    a_store_whose_commit_is_unknown_is_answered,
    a_store_that_is_not_committed_is_tried_again,
    a_claim_on_a_silent_connection_keeps_no_key_in_memory,
    a_claim_that_comes_too_late_is_given_back,
    a_step_on_a_silent_connection_ends,
    the_beginning_of_a_step_is_tried_again,
    the_beginning_of_a_step_on_a_silent_connection_is_tried_again,
    the_end_of_a_step_is_tried_again,
    the_end_of_a_step_on_a_silent_connection_is_tried_again,
    a_run_that_cannot_see_its_key_any_more_has_no_known_outcome,
    a_run_that_went_past_a_step_that_it_cannot_read_stores_nothing,
    a_store_on_a_silent_connection_is_tried_again,
    a_renewal_on_a_silent_connection_loses_no_lease,
    a_transaction_that_locks_the_key_has_two_thirds_of_the_lease,
    a_release_that_fails_leaves_the_answer_to_the_handler,
    a_release_that_fails_after_the_lease_is_lost_has_no_known_outcome,
);

/// The points before commits that are tried once: those of transaction steps.
const BEFORE_A_COMMIT: [&str; 2] = ["claimed", "recorded"];

impl Line {
    /// Longer than the test, so that no heartbeat comes in between.
    async fn without_heartbeat(kind: Kind) -> Self {
        Self::start(kind, Duration::from_mins(5)).await
    }

    /// Begins an order whose next commit after the point fails.
    async fn fail_after(&self, point: &str, fault: Fault) -> Pending {
        let gate = self.app.order.gates.at(point);
        gate.close();
        let running = self.app.order("k").start();
        gate.until_arrived(1).await;
        self.proxy.fail("commit", fault);
        gate.open();
        running
    }

    /// Orders, whatever a take-over does with them, that are made by their first attempt although
    /// the next commit after the point fails.
    async fn assert_goes_on_over(&self, point: &str, fault: &Fault) {
        let gate = self.app.order.gates.at(point);
        let orders = [self.app.order("k"), self.app.reconciled("k")];
        for (number, order) in orders.into_iter().enumerate() {
            gate.close();
            let running = order.start();
            gate.until_arrived(number + 1).await;
            self.proxy.fail("commit", fault.clone());
            gate.open();
            let answer = running.answer().await;
            assert!(!self.proxy.is_armed(), "no commit was sent");
            assert_eq!(answer.status, 201, "{fault:?}: {answer:?}");
            assert_eq!(answer.json::<Value>()["attempt"], 1, "{fault:?}");
        }
        let calls = self.app.order.gates.at("charging").arrived();
        assert_eq!((calls, self.database.effects().await), (2, 4), "{fault:?}");
    }

    /// An order that was made by this attempt, stands once, and is replayed.
    async fn assert_made(&self, answer: &Answer, attempt: u32) {
        assert!(!self.proxy.is_armed(), "no commit was sent");
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.json::<Value>()["attempt"], attempt);
        self.app.order("k").await.assert_replays(answer);
        assert_eq!(self.database.effects().await, 2);
    }
}

async fn a_claim_whose_commit_is_unknown_knows_its_row(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    line.proxy.fail("commit", Fault::CutAfter);
    let answer = line.app.order("k").await;
    line.assert_made(&answer, 1).await;
}

async fn a_claim_that_is_not_committed_runs_nothing(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    line.proxy.fail("commit", Fault::CutBefore);
    let refused = line.app.order("k").await;
    refused.assert_refused(503, "store-unavailable");
    assert_eq!(line.app.order.gates.at("claimed").arrived(), 0);
    let answer = line.app.order("k").await;
    line.assert_made(&answer, 1).await;
}

async fn a_claim_that_is_not_committed_does_not_take_another_for_its_own(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    let other = LeasedApp::start(&line.database).await;
    let (committing, claimed) = (Gate::default(), other.order.gates.at("claimed"));
    committing.close();
    claimed.close();
    line.proxy.fail("commit", Fault::Delay(committing.clone()));
    let loser = line.app.order("k").start();
    committing.until_arrived(1).await;
    line.database
        .pool()
        .execute(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where datname = current_database() and state = 'idle in transaction'",
        )
        .await;
    let owner = other.order("k").start();
    claimed.until_arrived(1).await;
    committing.open();
    let refused = loser.answer().await;
    refused.assert_refused(503, "store-unavailable");
    assert_eq!(line.app.order.gates.at("claimed").arrived(), 0);
    claimed.open();
    line.assert_made(&owner.answer().await, 1).await;
}

async fn a_step_whose_commit_is_unknown_has_one_effect(kind: Kind) {
    for point in BEFORE_A_COMMIT {
        let line = Line::without_heartbeat(kind).await;
        let failed = line.fail_after(point, Fault::CutAfter).await.answer().await;
        assert_eq!(failed.status, 503, "{point}: {failed:?}");
        let answer = line.app.order("k").await;
        line.assert_made(&answer, 2).await;
    }
}

async fn a_step_that_is_not_committed_has_one_effect(kind: Kind) {
    for point in BEFORE_A_COMMIT {
        let line = Line::without_heartbeat(kind).await;
        let failed = line
            .fail_after(point, Fault::CutBefore)
            .await
            .answer()
            .await;
        assert_eq!(failed.status, 503, "{point}: {failed:?}");
        let answer = line.app.order("k").await;
        // A key whose first step left nothing is new.
        let attempt = if point == "claimed" { 1 } else { 2 };
        line.assert_made(&answer, attempt).await;
    }
}

async fn a_store_whose_commit_is_unknown_is_answered(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    let running = line.fail_after("confirmed", Fault::CutAfter).await;
    line.assert_made(&running.answer().await, 1).await;
}

async fn a_store_that_is_not_committed_is_tried_again(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    let running = line.fail_after("confirmed", Fault::CutBefore).await;
    line.assert_made(&running.answer().await, 1).await;
}

async fn a_claim_on_a_silent_connection_keeps_no_key_in_memory(kind: Kind) {
    let at = async |statement| {
        let line = Line::without_heartbeat(kind).await;
        line.proxy.fail(statement, Fault::Blackhole);
        // The duplicate waits for the first in memory, and does not ask by itself.
        for refused in [line.app.order("k").start(), line.app.order("k").start()] {
            let refused = refused.answer().await;
            refused.assert_refused(503, "store-unavailable");
        }
        assert_eq!(line.app.order.gates.at("claimed").arrived(), 0);
        line.database.until_no_transaction_is_open().await;
        let answer = line.app.order("k").await;
        line.assert_made(&answer, 1).await;
        line
    };
    // The end of one holds up the thread, so all end when all are done.
    let _lines = tokio::join!(
        at("set transaction"),
        at("insert into idempotency_keys"),
        at("commit")
    );
}

async fn a_claim_that_comes_too_late_is_given_back(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    let held = Gate::default();
    held.close();
    line.proxy
        .fail("set transaction", Fault::Delay(held.clone()));
    let refused = line.app.order("k").await;
    refused.assert_refused(503, "store-unavailable");

    // Once the line is whole the claim comes through, for nobody.
    let committing = Gate::default();
    committing.close();
    line.proxy.fail("commit", Fault::Hold(committing.clone()));
    held.open();
    committing.until_arrived(1).await;
    committing.open();
    let running = async {
        loop {
            let answer = line.app.order("k").await;
            if answer.status != 409 {
                return answer;
            }
        }
    };
    let answer = timeout(Duration::from_mins(1), running).await;
    let answer = answer.expect("an answer before the lease of five minutes is over");
    line.assert_made(&answer, 1).await;
}

async fn a_step_on_a_silent_connection_ends(kind: Kind) {
    let after = async |point| {
        let line = Line::without_heartbeat(kind).await;
        let silent = line.fail_after(point, Fault::Blackhole).await;
        let failed = silent.answer().await;
        assert_eq!(failed.status, 503, "{point}: {failed:?}");
        let mut answer = line.app.order("k").await;
        while answer.status == 409 {
            answer = line.app.order("k").await;
        }
        let attempt = if point == "claimed" { 1 } else { 2 };
        line.assert_made(&answer, attempt).await;
        line
    };
    let [first, second] = BEFORE_A_COMMIT;
    let _lines = tokio::join!(after(first), after(second));
}

/// Nothing was called: neither the run nor its key ends because the note of it got no answer.
async fn the_beginning_of_a_step_is_tried_again(kind: Kind) {
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        let line = Line::without_heartbeat(kind).await;
        line.assert_goes_on_over("reserved", &fault).await;
    }
}

async fn the_beginning_of_a_step_on_a_silent_connection_is_tried_again(kind: Kind) {
    // The server ends a transaction that pauses for two thirds of the lease.
    let line = Line::start(kind, Duration::from_secs(6)).await;
    let running = line.fail_after("reserved", Fault::Blackhole).await;
    line.assert_made(&running.answer().await, 1).await;
    assert_eq!(line.app.order.gates.at("charging").arrived(), 1);
}

/// A call that was made is not made again, nor left to an operator, because its record got no answer.
async fn the_end_of_a_step_is_tried_again(kind: Kind) {
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        let line = Line::without_heartbeat(kind).await;
        line.assert_goes_on_over("charging", &fault).await;
    }
}

async fn the_end_of_a_step_on_a_silent_connection_is_tried_again(kind: Kind) {
    // The server ends a transaction that pauses for two thirds of the lease.
    let line = Line::start(kind, Duration::from_secs(6)).await;
    let running = line.fail_after("charging", Fault::Blackhole).await;
    line.assert_made(&running.answer().await, 1).await;
    assert_eq!(line.app.order.gates.at("charging").arrived(), 1);
}

/// Its steps are done: that the attempt did nothing would be no true word.
async fn a_run_that_cannot_see_its_key_any_more_has_no_known_outcome(kind: Kind) {
    for status in [StatusCode::CREATED, StatusCode::SERVICE_UNAVAILABLE] {
        let line = Line::without_heartbeat(kind).await;
        let elsewhere = LeasedApp::start(&line.database).await;
        let done = Gate::default();
        let gate = done.clone();
        line.app.handler(move |lease| {
            let gate = gate.clone();
            async move {
                lease.effect("reserve", &Gate::default()).await.expect("it");
                gate.pass().await;
                status.into_response()
            }
            .boxed()
        });
        done.close();
        let running = line.app.order("k").start();
        done.until_arrived(1).await;
        end_leases(&line.database, kind).await;
        let answer = elsewhere.order("k").await;
        assert_eq!(answer.status, 201, "{answer:?}");

        line.proxy.fail("select k.fingerprint", Fault::CutBefore);
        done.open();
        let unknown = running.answer().await;
        unknown.assert_refused(503, "outcome-unknown");
        assert!(!line.proxy.is_armed(), "nobody looked");
        line.app.order("k").await.assert_replays(&answer);
    }
}

async fn a_store_on_a_silent_connection_is_tried_again(kind: Kind) {
    // The server ends a transaction that pauses for two thirds of the lease.
    let line = Line::start(kind, Duration::from_secs(6)).await;
    let running = line.fail_after("confirmed", Fault::Blackhole).await;
    line.assert_made(&running.answer().await, 1).await;
}

/// Also where the next one fails too: a heartbeat that has failed pauses for less than a beat.
async fn a_renewal_on_a_silent_connection_loses_no_lease(kind: Kind) {
    let line = Line::start(kind, Duration::from_secs(12)).await;
    let (gate, elsewhere) = (
        line.app.order.gates.at("charging"),
        LeasedApp::start(&line.database).await,
    );
    gate.close();
    let running = line.app.order("k").start();
    gate.until_arrived(1).await;
    let claimed = line.app.find("k").await.locked_until;
    for fault in [Fault::Blackhole, Fault::CutBefore] {
        line.proxy.fail("set transaction", fault);
        while line.proxy.is_armed() {
            let meanwhile = elsewhere.order("k").await;
            meanwhile.assert_refused(409, "in-progress");
        }
    }
    while line.app.find("k").await.locked_until == claimed {
        let meanwhile = elsewhere.order("k").await;
        meanwhile.assert_refused(409, "in-progress");
    }
    gate.open();
    line.assert_made(&running.answer().await, 1).await;
}

/// An owner that freezes in the middle of one must not hold up its take-over.
async fn a_transaction_that_locks_the_key_has_two_thirds_of_the_lease(kind: Kind) {
    let line = Line::start(kind, Duration::from_secs(6)).await;
    let answer = line.app.order("k").await;
    line.assert_made(&answer, 1).await;
    let sent = line.proxy.round_trips();
    let limited = sent
        .iter()
        .filter(|sent| sent.contains("idle_in_transaction_session_timeout = 4000"));
    // The claim, the beginning and the end of the call, the store; and the ends of two transactions.
    assert_eq!(limited.count(), 6, "{sent:#?}");
}

/// What the handler did is rolled back or finished: its own answer says so best.
async fn a_release_that_fails_leaves_the_answer_to_the_handler(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    line.app.handler(|_| {
        async { (StatusCode::INSUFFICIENT_STORAGE, "no room").into_response() }.boxed()
    });
    line.proxy.fail(
        "update idempotency_keys set locked_until = null",
        Fault::CutBefore,
    );
    let failed = line.app.order("k").await;
    assert!(!line.proxy.is_armed(), "nothing was released");
    assert_eq!((failed.status, &failed.body[..]), (507, &b"no room"[..]));
}

/// What the handler answered is not the answer of the key, which is another attempt's by now.
async fn a_release_that_fails_after_the_lease_is_lost_has_no_known_outcome(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    let elsewhere = LeasedApp::start(&line.database).await;
    let [first, second] = [Gate::default(), Gate::default()];
    let gates = [first.clone(), second.clone()];
    line.app.handler(move |lease| {
        let [first, second] = gates.clone();
        async move {
            first.pass().await;
            let step = lease.step("charge", async || Ok::<_, StatusCode>(()));
            step.await.expect_err("another attempt has the lease");
            second.pass().await;
            (StatusCode::CONFLICT, "sold out").into_response()
        }
        .boxed()
    });
    first.close();
    second.close();
    let running = line.app.order("k").start();
    first.until_arrived(1).await;
    end_leases(&line.database, kind).await;
    let answer = elsewhere.order("k").await;
    assert_eq!(answer.status, 201, "{answer:?}");

    first.open();
    second.until_arrived(1).await;
    line.proxy.fail(
        "update idempotency_keys set locked_until = null",
        Fault::CutBefore,
    );
    second.open();
    let unknown = running.answer().await;
    assert!(!line.proxy.is_armed(), "nothing was released");
    unknown.assert_refused(503, "outcome-unknown");
    line.app.order("k").await.assert_replays(&answer);
}

/// Though the handler took no notice, and the key could not be parked.
async fn a_run_that_went_past_a_step_that_it_cannot_read_stores_nothing(kind: Kind) {
    let line = Line::without_heartbeat(kind).await;
    line.app.handler(|lease| {
        async move {
            if lease.claim().attempt() == 1 {
                let name = async || Ok::<_, StatusCode>("a name".to_owned());
                lease.step("charge", name).await.expect("a result");
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            let number = lease.step("charge", async || Ok::<_, StatusCode>(7));
            number.await.expect_err("no number");
            StatusCode::CREATED.into_response()
        }
        .boxed()
    });
    assert_eq!(line.app.order("k").await.status, 503);
    line.proxy
        .fail("update idempotency_keys set state = 4", Fault::CutBefore);
    let refused = line.app.order("k").await;
    refused.assert_refused(409, "in-progress");
    assert!(!line.proxy.is_armed(), "nobody parked");

    end_leases(&line.database, kind).await;
    let refused = line.app.order("k").await;
    refused.assert_refused(409, "needs-reconciliation");
}
