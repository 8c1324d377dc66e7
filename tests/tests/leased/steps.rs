//! Steps: recorded once, kept over failures, and never confused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use idem_runtime::{KeyState, StepError};
use idem_tests::app::Setting;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{AnyLease, LeasedApp, LeasedSetup};
use idem_tests::{Gate, Kind};
use sqlx::SqliteConnection;

use crate::{Two, end_leases, steps};

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, why.to_owned()).into_response()
}

/// One effect, one outside call, and then what the gate's arrivals so far say: a failure at first,
/// and a success from the second run on.
async fn fails_at_first(lease: AnyLease<'_>, calls: &Gate, failure: fn() -> Response) -> Response {
    let id = lease
        .effect("reserve", &Gate::default())
        .await
        .expect("an effect");
    let call = async || {
        calls.arrive();
        Ok::<_, StatusCode>(calls.arrived())
    };
    let call = lease.step("charge", call).await.expect("a charge");
    if lease.claim().attempt() == 1 {
        return failure();
    }
    format!(
        "effect {id}, call {call}, attempt {}",
        lease.claim().attempt()
    )
    .into_response()
}

async fn assert_resumes_after(kind: Kind, failure: fn() -> Response, status: u16) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let calls = Gate::default();
    for app in [&first, &second] {
        let calls = calls.clone();
        app.handler(move |lease| {
            let calls = calls.clone();
            async move { fails_at_first(lease, &calls, failure).await }.boxed()
        });
    }
    let failed = first.order("k").await;
    assert_eq!(failed.status, status, "{failed:?}");
    let key = first.find("k").await;
    assert_eq!(
        (key.state, key.attempt, key.locked_until),
        (KeyState::Released, 1, None)
    );
    assert_eq!(key.steps.iter().filter(|step| step.finished).count(), 2);

    // Somewhere else, and at once: nobody waits for a lease.
    let answer = second.order("k").await;
    assert_eq!(answer.body, "effect 1, call 1, attempt 2", "{answer:?}");
    assert_eq!((calls.arrived(), database.effects().await), (1, 1));
}

async fn a_failed_run_resumes_after_its_finished_steps(kind: Kind) {
    assert_resumes_after(kind, || unavailable("later"), 503).await;
}

async fn a_panic_resumes_after_its_finished_steps(kind: Kind) {
    assert_resumes_after(kind, || panic!("on purpose"), 500).await;
}

/// A run that failed before its first step leaves the key to any request.
async fn a_run_that_failed_without_a_step_leaves_no_trace(kind: Kind) {
    let Two {
        first,
        second: _second,
        database: _database,
    } = Two::start(kind).await;
    first.handler(|_| async { unavailable("later") }.boxed());
    assert_eq!(first.order("k").await.status, 503);
    assert!(first.find_if_any("k").await.is_none());

    first.handler(|lease| {
        async move { lease.claim().attempt().to_string().into_response() }.boxed()
    });
    assert_eq!(first.order_with("k", "card_other").await.body, "1");
}

/// With steps behind it, the key stays the first request's.
async fn another_request_never_resumes_foreign_steps(kind: Kind) {
    let Two {
        first,
        second,
        database: _database,
    } = Two::start(kind).await;
    first.handler(|lease| {
        async move { fails_at_first(lease, &Gate::default(), || unavailable("later")).await }
            .boxed()
    });
    assert_eq!(first.order("k").await.status, 503);
    for app in [&first, &second] {
        let other = app.order_with("k", "card_other").await;
        other.assert_refused(422, "request-mismatch");
    }
}

async fn a_step_name_used_twice_is_an_error_that_names_it(kind: Kind) {
    let Two {
        first,
        second: _second,
        database,
    } = Two::start(kind).await;
    first.handler(|lease| {
        async move {
            let gate = Gate::default();
            lease.effect("reserve", &gate).await.expect("an effect");
            let again = lease
                .effect("reserve", &gate)
                .await
                .expect_err("a name used twice");
            assert!(matches!(again, StepError::NameUsedTwice(_)), "{again:?}");
            let step = lease
                .step("reserve", async || Ok::<_, StatusCode>(()))
                .await;
            let step = step.expect_err("a name used twice");
            assert_eq!(again.to_string(), step.to_string());
            unavailable(&again.to_string())
        }
        .boxed()
    });
    // Also on the attempt that finds the name recorded.
    for _ in 0..2 {
        let answer = first.order("k").await;
        assert!(
            answer.body.windows(9).any(|part| part == b"`reserve`"),
            "{answer:?}"
        );
    }
    assert_eq!(database.effects().await, 1);
}

/// After a deployment that changed a step's type, nothing runs twice: an operator decides.
async fn a_result_that_no_longer_deserialises_parks_the_key(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    first.handler(|lease| {
        async move {
            let name = async || Ok::<_, StatusCode>("a name".to_owned());
            lease.step("charge", name).await.expect("a result");
            unavailable("later")
        }
        .boxed()
    });
    assert_eq!(first.order("k").await.status, 503);

    let runs = Gate::default();
    let counted = runs.clone();
    second.handler(move |lease| {
        let counted = counted.clone();
        async move {
            let number = async || {
                counted.arrive();
                Ok::<_, StatusCode>(7)
            };
            let error = lease.step("charge", number).await.expect_err("no number");
            assert!(matches!(error, StepError::Unreadable { .. }), "{error:?}");
            assert!(error.to_string().contains("`charge`"), "{error}");
            // What follows does not run either, and no answer of this run is stored.
            let after = lease.effect("after", &Gate::default()).await;
            assert!(matches!(after, Err(StepError::LeaseLost)), "{after:?}");
            StatusCode::CREATED.into_response()
        }
        .boxed()
    });
    for app in [&second, &first, &second] {
        let refused = app.order("k").await;
        refused.assert_refused(409, "needs-reconciliation");
    }
    assert_eq!((runs.arrived(), database.effects().await), (0, 0));
    assert_eq!(second.find("k").await.state, KeyState::NeedsReconciliation);
}

/// A transaction step whose work fails leaves neither its writes nor its name behind.
async fn a_transaction_step_is_there_with_its_record_or_not_at_all(kind: Kind) {
    let Two {
        first,
        second: _second,
        database,
    } = Two::start(kind).await;
    let insert = "insert into effects (account, label) values ('alice', 'half')";
    first.handler(move |lease| {
        async move {
            let broken = format!("{insert}; insert into nowhere values (1)");
            let error = lease.statements("reserve", &broken).await;
            assert!(matches!(error, Err(StepError::Work(_))), "{error:?}");
            unavailable("later")
        }
        .boxed()
    });
    assert_eq!(first.order("k").await.status, 503);
    assert_eq!((database.effects().await, steps(&database).await), (0, 0));

    first.handler(move |lease| {
        async move {
            lease
                .statements("reserve", insert)
                .await
                .expect("the writes");
            unavailable("later")
        }
        .boxed()
    });
    for _ in 0..2 {
        assert_eq!(first.order("k").await.status, 503);
        assert_eq!((database.effects().await, steps(&database).await), (1, 1));
    }
}

async fn a_step_that_ends_its_own_transaction_is_found_out(kind: Kind) {
    let Two {
        first,
        second: _second,
        database,
    } = Two::start(kind).await;
    // Whatever the work makes of it: what it has committed stays.
    for work in ["commit", "commit; select 1 from nowhere"] {
        first.handler(move |lease| {
            async move {
                let ended = lease.statements("reserve", work).await;
                assert!(matches!(ended, Err(StepError::EndedByWork)), "{ended:?}");
                unavailable("found out")
            }
            .boxed()
        });
        let answer = first.order("k").await;
        assert_eq!((answer.status, &answer.body[..]), (503, &b"found out"[..]));
        assert_eq!(steps(&database).await, 0);
    }
}

/// As where the disk is full: SQLite rolls the step's transaction back by itself.
async fn a_step_over_an_automatic_rollback_records_nothing(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let setup = LeasedSetup {
        pool_size: 1,
        ..LeasedSetup::default()
    };
    let app = LeasedApp::with(&database, setup).await;
    for goes_on in [true, false] {
        app.handler(move |lease| {
            async move {
                let AnyLease::Sqlite(lease) = lease else {
                    panic!("on SQLite");
                };
                let work = async |tx: &mut SqliteConnection| {
                    let effect = "insert into effects (account, label) values ('', '')";
                    sqlx::query(effect).execute(&mut *tx).await?;
                    let twice = "insert or rollback into parents values (1), (1)";
                    let failed = sqlx::query(twice).execute(&mut *tx).await.map(drop);
                    if goes_on { Ok(()) } else { failed }
                };
                let error = lease.transaction("reserve", work).await;
                match error.expect_err("rolled back") {
                    error @ StepError::EndedByWork if goes_on => {
                        assert!(error.to_string().contains("rolled it back"), "{error}");
                    }
                    StepError::Work(_) if !goes_on => {}
                    error => panic!("{error:?}"),
                }
                StatusCode::INSUFFICIENT_STORAGE.into_response()
            }
            .boxed()
        });
        assert_eq!(app.order("k").await.status, 507);
        assert_eq!((database.effects().await, steps(&database).await), (0, 0));
    }
    // The connection works on.
    app.handler(|_| async { StatusCode::CREATED.into_response() }.boxed());
    assert_eq!(app.order("k").await.status, 201);
}

/// Steps that run side by side are recorded each for itself.
async fn steps_may_run_at_the_same_time(kind: Kind) {
    let Two {
        first,
        second: _second,
        database,
    } = Two::start(kind).await;
    let (one, two) = (Gate::default(), Gate::default());
    let gates = (one.clone(), two.clone());
    first.handler(move |lease| {
        let (one, two) = gates.clone();
        async move {
            let outside = |gate: Gate, value: &'static str| {
                async move || {
                    gate.pass().await;
                    Ok::<_, StatusCode>(value.to_owned())
                }
            };
            let open = Gate::default();
            let (one, two, three) = tokio::join!(
                lease.step("one", outside(one, "1")),
                lease.step("two", outside(two, "2")),
                lease.effect("three", &open),
            );
            let (one, two) = (one.expect("a result"), two.expect("a result"));
            let three = three.expect("an effect");
            if lease.claim().attempt() == 1 {
                return unavailable("later");
            }
            format!("{one} {two} {three}").into_response()
        }
        .boxed()
    });
    one.close();
    two.close();
    let running = first.order("k").start();
    one.until_arrived(1).await;
    two.until_arrived(1).await;
    one.open();
    two.open();
    assert_eq!(running.answer().await.status, 503);
    assert_eq!(first.order("k").await.body, "1 2 1");
    assert_eq!(
        (one.arrived(), two.arrived(), database.effects().await),
        (1, 1, 1)
    );
}

/// A step that the handler gives up has begun and not finished: the next attempt runs it again.
async fn a_step_that_is_dropped_half_way_runs_again(kind: Kind) {
    let Two {
        first,
        second: _second,
        database,
    } = Two::start(kind).await;
    let (outside, inside) = (Gate::default(), Gate::default());
    let gates = (outside.clone(), inside.clone());
    first.handler(move |lease| {
        let (outside, inside) = gates.clone();
        async move {
            let limit = Duration::from_millis(50);
            let call = async || {
                outside.pass().await;
                Ok::<_, StatusCode>(())
            };
            let call = tokio::time::timeout(limit, lease.step("call", call)).await;
            let effect = tokio::time::timeout(limit, lease.effect("effect", &inside)).await;
            match (call, effect) {
                (Ok(call), Ok(effect)) => format!("{call:?} {effect:?}").into_response(),
                _ => unavailable("too slow"),
            }
        }
        .boxed()
    });
    outside.close();
    inside.close();
    assert_eq!(first.order("k").await.status, 503);
    let begun: Vec<_> = first.find("k").await.steps;
    assert_eq!(begun.len(), 1, "{begun:?}");
    assert!(begun[0].name == "call" && !begun[0].finished, "{begun:?}");
    assert_eq!(database.effects().await, 0);

    outside.open();
    inside.open();
    let mut answer = first.order("k").await;
    // On a slow machine, 50 ms may be too short for an effect.
    while answer.status == 503 {
        answer = first.order("k").await;
    }
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(database.effects().await, 1);
}

async fn a_derived_key_is_the_same_for_every_attempt(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    for app in [&first, &second] {
        let seen = Arc::clone(&seen);
        app.handler(move |lease| {
            let seen = Arc::clone(&seen);
            async move {
                let key = |label| lease.claim().derive_key(label).to_string();
                seen.lock()
                    .expect("no panic")
                    .push((key("charge"), key("refund")));
                lease
                    .effect("reserve", &Gate::default())
                    .await
                    .expect("an effect");
                unavailable("later")
            }
            .boxed()
        });
    }
    for app in [&first, &second, &first] {
        assert_eq!(app.order("k").await.status, 503);
    }
    let seen = seen.lock().expect("no panic").clone();
    assert!(seen.iter().all(|keys| *keys == seen[0]), "{seen:?}");
    assert!(seen[0].0 != seen[0].1 && seen[0].0.len() == 36, "{seen:?}");
    assert_eq!(database.effects().await, 1);
}

async fn steps_may_be_in_a_table_of_another_name(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let setup = LeasedSetup {
        settings: &[Setting::StepsTable("calls")],
        ..LeasedSetup::default()
    };
    let app = LeasedApp::with(&database, setup).await;
    let answer = app.order("k").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let steps = app.find("k").await.steps.len();
    let stored = database.pool().number("select count(*) from calls").await;
    assert!(steps > 0 && stored == i64::try_from(steps).expect("a few"));
}

/// Results are as secret as responses.
async fn results_are_sealed_at_rest(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let setup = LeasedSetup {
        settings: &[Setting::Seal],
        ..LeasedSetup::default()
    };
    let app = LeasedApp::with(&database, setup).await;
    app.handler(|lease| {
        async move {
            let secret = async || Ok::<_, StatusCode>("swordfish".to_owned());
            let secret = lease.step("charge", secret).await.expect("a result");
            match lease.claim().attempt() {
                1 => unavailable("later"),
                _ => secret.into_response(),
            }
        }
        .boxed()
    });
    assert_eq!(app.order("k").await.status, 503);
    let stored = if kind.is_sqlite() {
        "select lower(hex(result)) from idempotency_steps"
    } else {
        "select encode(result, 'hex') from idempotency_steps"
    };
    let stored = database.pool().text(stored).await;
    let hex = |text: &str| {
        text.bytes()
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    };
    assert!(!stored.contains(&hex("swordfish")), "{stored}");
    assert!(stored.contains(&hex("hsifdrows")), "{stored}");
    assert_eq!(app.order("k").await.body, "swordfish");
}

/// The record of a step outlives the owner that dies right after it.
async fn a_recorded_step_is_never_run_by_the_next_owner(kind: Kind) {
    let Two {
        first,
        second,
        database,
    } = Two::start(kind).await;
    let recorded = first.order.gates.at("recorded");
    recorded.close();
    let lost = first.order("k").start();
    recorded.until_arrived(1).await;
    end_leases(&database, kind).await;

    assert_eq!(second.order("k").await.status, 201);
    assert_eq!(second.order.gates.at("charging").arrived(), 0);
    assert_eq!(second.order.gates.at("reserving").arrived(), 0);
    lost.leave();
}

stamp!(
    a_failed_run_resumes_after_its_finished_steps,
    a_panic_resumes_after_its_finished_steps,
    a_run_that_failed_without_a_step_leaves_no_trace,
    another_request_never_resumes_foreign_steps,
    a_step_name_used_twice_is_an_error_that_names_it,
    a_result_that_no_longer_deserialises_parks_the_key,
    a_transaction_step_is_there_with_its_record_or_not_at_all,
    a_step_that_ends_its_own_transaction_is_found_out,
    steps_may_run_at_the_same_time,
    a_step_that_is_dropped_half_way_runs_again,
    a_derived_key_is_the_same_for_every_attempt,
    steps_may_be_in_a_table_of_another_name,
    results_are_sealed_at_rest,
    a_recorded_step_is_never_run_by_the_next_owner,
);
stamp!(sqlite: a_step_over_an_automatic_rollback_records_nothing);

/// Its writes are rolled back, and so is nothing else of the run.
async fn assert_ends_after_a_minute(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let app = LeasedApp::start(&database).await;
    let (work, done, told) = (Gate::default(), Gate::default(), Arc::new(Mutex::new(None)));
    let shared = (work.clone(), done.clone(), Arc::clone(&told));
    app.handler(move |lease| {
        let (work, done, told) = shared.clone();
        async move {
            let result = lease.effect("reserve", &work).await;
            *told.lock().expect("no panic") = Some(result);
            done.pass().await;
            StatusCode::CREATED.into_response()
        }
        .boxed()
    });
    work.close();
    let running = app.order("k").start();
    work.until_arrived(1).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    let told_it = tokio::time::timeout(Duration::from_mins(1), done.until_arrived(1)).await;
    told_it.expect("the step is over");
    let result = told.lock().expect("no panic").take();
    assert!(
        matches!(result, Some(Err(StepError::TimedOut))),
        "{result:?}"
    );
    drop(running);
    assert_eq!((database.effects().await, steps(&database).await), (0, 0));
}

// Only a runtime of one thread has a clock that a test can set.

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_transaction_step_ends_after_a_minute_on_postgres() {
    assert_ends_after_a_minute(Kind::Postgres).await;
}

#[tokio::test]
async fn a_transaction_step_ends_after_a_minute_on_sqlite() {
    assert_ends_after_a_minute(Kind::Sqlite).await;
}
