//! Statements that meet in the worst order, on a database where they run side by side.

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::FutureExt;
use idem_runtime::KeyState;
use idem_tests::database::{Pool, TestDatabase};
use idem_tests::leased::LeasedApp;
use idem_tests::proxy::{Fault, Proxy};
use idem_tests::{Gate, Kind};

use crate::line::Line;
use crate::{end_leases, until};

/// An application behind a proxy, and one that is not.
struct Proxied {
    app: LeasedApp,
    observer: LeasedApp,
    proxy: Proxy,
    database: TestDatabase,
}

impl Proxied {
    async fn start(kind: Kind, lease: Duration) -> Self {
        let Line {
            app,
            proxy,
            database,
        } = Line::start(kind, lease).await;
        let observer = LeasedApp::start(&database).await;
        Self {
            app,
            observer,
            proxy,
            database,
        }
    }

    async fn until_a_statement_waits(&self) {
        self.until_statements_wait(1).await;
    }

    async fn until_statements_wait(&self, number: i64) {
        let waiting = "select count(*) from pg_stat_activity \
                       where datname = current_database() and wait_event_type = 'Lock'";
        until("statements wait for another", async || {
            self.database.pool().number(waiting).await >= number
        })
        .await;
    }
}

/// The heartbeat's renewal comes after the release that ended the run: nobody would be there to
/// release it again.
async fn a_late_heartbeat_does_not_hold_a_released_key(kind: Kind) {
    let Proxied {
        app,
        observer,
        proxy,
        database: _database,
    } = Proxied::start(kind, Duration::from_millis(600)).await;
    let end = Gate::default();
    let gate = end.clone();
    app.handler(move |lease| {
        let gate = gate.clone();
        async move {
            lease
                .effect("reserve", &Gate::default())
                .await
                .expect("an effect");
            gate.pass().await;
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        .boxed()
    });
    end.close();
    let running = app.order("k").start();
    end.until_arrived(1).await;
    let late = Gate::default();
    late.close();
    proxy.fail("set transaction isolation level", Fault::Hold(late.clone()));
    late.until_arrived(1).await;

    end.open();
    assert_eq!(running.answer().await.status, 503);
    late.open();
    assert!(app.handle.drain(Duration::from_mins(1)).await);
    let key = observer.find("k").await;
    assert_eq!(
        (key.state, key.locked_until),
        (KeyState::Released, None),
        "{key:?}"
    );
}

/// The handler gives a transaction step up while its record is on the way, and fails: the release
/// waits for the record, and must see it.
async fn a_release_sees_the_step_that_it_waited_for(kind: Kind) {
    let proxied = Proxied::start(kind, Duration::from_mins(5)).await;
    let Proxied {
        app,
        proxy,
        database,
        ..
    } = &proxied;
    let on_the_way = Gate::default();
    let gate = on_the_way.clone();
    app.handler(move |lease| {
        let gate = gate.clone();
        async move {
            let open = Gate::default();
            let given_up = async {
                match lease.claim().attempt() {
                    1 => gate.until_arrived(1).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                effect = lease.effect("reserve", &open) => {
                    format!("effect {}", effect.expect("an effect")).into_response()
                }
                () = given_up => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            }
        }
        .boxed()
    });
    on_the_way.close();
    proxy.fail(
        "insert into idempotency_steps",
        Fault::Hold(on_the_way.clone()),
    );
    let running = app.order("k").start();
    proxied.until_a_statement_waits().await;
    on_the_way.open();
    assert_eq!(running.answer().await.status, 503);

    let retry = app.order("k").await;
    assert_eq!(retry.body, "effect 1", "{retry:?}");
    assert_eq!(database.effects().await, 1);
}

/// A claim that had to wait for the row holds for the whole lease from then on.
async fn a_claim_that_waited_has_a_whole_lease(kind: Kind) {
    let lease = Duration::from_secs(30);
    let proxied = Proxied::start(kind, lease).await;
    let Proxied {
        app,
        observer,
        database,
        ..
    } = &proxied;
    let claimed = observer.order.gates.at("claimed");
    claimed.close();
    let abandoned = observer.order("k").start();
    claimed.until_arrived(1).await;
    end_leases(database, kind).await;

    let Pool::Postgres(pool) = database.pool() else {
        panic!("on PostgreSQL");
    };
    let mut tx = pool.begin().await.expect("a transaction");
    sqlx::query("select 1 from idempotency_keys for update")
        .execute(&mut *tx)
        .await
        .expect("the row");
    let claimed = app.order.gates.at("claimed");
    claimed.close();
    let running = app.order("k").start();
    proxied.until_a_statement_waits().await;
    let seconds: f64 = sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8")
        .fetch_one(&mut *tx)
        .await
        .expect("the time");
    tx.rollback().await.expect("the end of the transaction");

    claimed.until_arrived(1).await;
    let key = observer.find("k").await;
    let unlocked = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
    // A millisecond is what `find` shows.
    let whole = unlocked + lease - Duration::from_millis(1);
    assert!(
        key.locked_until.expect("a lease") >= whole,
        "{key:?} and {unlocked:?}"
    );
    claimed.open();
    assert_eq!(running.answer().await.status, 201);
    abandoned.leave();
}

/// Two owners-to-be that both saw the lease end meet at the row: one has the key.
async fn of_two_claims_that_wait_for_the_row_one_takes_over(kind: Kind) {
    let proxied = Proxied::start(kind, Duration::from_secs(30)).await;
    let Proxied {
        app,
        observer,
        database,
        ..
    } = &proxied;
    let claimed = observer.order.gates.at("claimed");
    claimed.close();
    let abandoned = observer.order("k").start();
    claimed.until_arrived(1).await;
    end_leases(database, kind).await;

    let Pool::Postgres(pool) = database.pool() else {
        panic!("on PostgreSQL");
    };
    let mut tx = pool.begin().await.expect("a transaction");
    sqlx::query("select 1 from idempotency_keys for update")
        .execute(&mut *tx)
        .await
        .expect("the row");
    let other = LeasedApp::start(database).await;
    let both = [app, &other];
    let running = both.map(|app| app.order("k").start());
    proxied.until_statements_wait(2).await;
    tx.rollback().await.expect("the end of the transaction");

    for running in running {
        let answer = running.answer().await;
        assert!(matches!(answer.status, 201 | 409), "{answer:?}");
    }
    let claimed = both.map(|app| app.order.gates.at("claimed").arrived());
    assert_eq!(claimed.iter().sum::<usize>(), 1, "{claimed:?}");
    abandoned.leave();
}

stamp!(
    postgres: a_late_heartbeat_does_not_hold_a_released_key,
    a_release_sees_the_step_that_it_waited_for,
    a_claim_that_waited_has_a_whole_lease,
    of_two_claims_that_wait_for_the_row_one_takes_over,
);
