//! The engine without HTTP: `Idempotency::once`.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::poll;
use idem_runtime::{Idempotency, InvalidRequest, Once, OnceError, Outcome, Overrides};
use idem_tests::app::Handle;
use idem_tests::proxy::Fault;
use idem_tests::{Gate, Kind, Setting, Setup, TestApp};
use sqlx::{PgConnection, SqliteConnection};

stamp!(
    work_runs_once_and_its_result_comes_back,
    a_result_that_is_too_large_is_not_kept,
    other_work_with_the_same_key_is_a_mismatch,
    work_that_fails_is_rolled_back_and_may_run_again,
    work_in_progress_is_told_and_can_be_waited_for,
    work_that_panics_or_takes_too_long_frees_the_key,
    work_goes_on_when_its_caller_does_not,
);

stamp!(
    postgres: a_duplicate_in_memory_is_told_that_the_store_is_down,
    other_work_in_memory_is_a_mismatch_whoever_has_the_key,
    work_with_less_than_a_millisecond_holds_its_key_no_longer,
);

/// A job that writes an effect, passes a gate, and returns how often it ran.
#[derive(Clone, Debug, Default)]
struct Work {
    gate: Gate,
    runs: Arc<AtomicUsize>,
    fails: bool,
    panics: bool,
}

type Done = Result<Outcome<usize>, OnceError<Failed>>;

#[derive(Debug)]
struct Failed;

impl Work {
    async fn run(&self) -> Result<usize, Failed> {
        self.gate.pass().await;
        assert!(!self.panics, "as the test wants");
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        if self.fails { Err(Failed) } else { Ok(run) }
    }
}

const INSERT: &str = "insert into effects (account, label) values ('once', '')";

async fn once(app: &TestApp, what: Once, work: Work) -> Done {
    match &app.handle {
        Handle::Postgres(handle) => {
            let work = async move |tx: &mut PgConnection| {
                sqlx::query(INSERT).execute(tx).await.expect("an effect");
                work.run().await
            };
            handle.once(what, work).await
        }
        Handle::Sqlite(handle) => {
            let work = async move |tx: &mut SqliteConnection| {
                sqlx::query(INSERT).execute(tx).await.expect("an effect");
                work.run().await
            };
            handle.once(what, work).await
        }
    }
}

fn job(key: &str) -> Once {
    Once::new("jobs", "nightly", key).expect("a job")
}

async fn work_runs_once_and_its_result_comes_back(kind: Kind) {
    let app = TestApp::start(kind).await;
    let work = Work::default();
    let first = once(&app, job("k"), work.clone()).await.expect("the first");
    assert_eq!(first, Outcome::Executed(1));
    let retry = once(&app, job("k"), work.clone()).await.expect("the retry");
    assert_eq!(retry, Outcome::Replayed(1));
    assert_eq!(app.effects().await, 1);
    let other = once(&app, job("other"), work).await.expect("another job");
    assert_eq!(other, Outcome::Executed(2));
}

async fn a_result_that_is_too_large_is_not_kept(kind: Kind) {
    let setup = Setup {
        settings: vec![Setting::Scope("jobs", Overrides::new().max_response(0))],
        ..Setup::default()
    };
    let app = TestApp::with(kind, setup).await;
    let work = Work::default();
    let first = once(&app, job("k"), work.clone()).await.expect("the first");
    assert_eq!(first, Outcome::Executed(1));
    let retry = once(&app, job("k"), work).await;
    assert!(matches!(retry, Err(OnceError::NotKept)), "{retry:?}");
    assert_eq!(app.effects().await, 1);
}

async fn other_work_with_the_same_key_is_a_mismatch(kind: Kind) {
    let app = TestApp::start(kind).await;
    let what = |amount: u64| job("k").fingerprint(&amount).expect("a fingerprint");
    once(&app, what(5), Work::default())
        .await
        .expect("the first");
    let other = once(&app, what(6), Work::default()).await;
    assert!(matches!(other, Err(OnceError::Mismatch)), "{other:?}");
    assert_eq!(app.effects().await, 1);
}

async fn work_that_fails_is_rolled_back_and_may_run_again(kind: Kind) {
    let app = TestApp::start(kind).await;
    let failing = Work {
        fails: true,
        ..Work::default()
    };
    let failed = once(&app, job("k"), failing).await;
    assert!(matches!(failed, Err(OnceError::Work(Failed))), "{failed:?}");
    app.assert_untouched().await;
    let retry = once(&app, job("k"), Work::default())
        .await
        .expect("the retry");
    assert_eq!(retry, Outcome::Executed(1));
}

async fn work_in_progress_is_told_and_can_be_waited_for(kind: Kind) {
    let app = Arc::new(TestApp::start(kind).await);
    let work = Work::default();
    work.gate.close();
    let first = tokio::spawn({
        let (app, work) = (Arc::clone(&app), work.clone());
        async move { once(&app, job("k"), work).await }
    });
    work.gate.until_arrived(1).await;

    let duplicate = once(&app, job("k"), work.clone()).await;
    assert!(
        matches!(duplicate, Err(OnceError::InProgress)),
        "{duplicate:?}"
    );

    let patient = tokio::spawn({
        let (app, work) = (Arc::clone(&app), work.clone());
        async move { once(&app, job("k").wait(Duration::from_mins(1)), work).await }
    });
    work.gate.open();
    assert_eq!(
        first.await.expect("no panic").expect("the first"),
        Outcome::Executed(1)
    );
    let patient = patient.await.expect("no panic").expect("the duplicate");
    assert_eq!(patient, Outcome::Replayed(1));
    assert_eq!(app.effects().await, 1);
}

async fn work_that_panics_or_takes_too_long_frees_the_key(kind: Kind) {
    let app = TestApp::start(kind).await;
    let panicking = Work {
        panics: true,
        ..Work::default()
    };
    let panicked = once(&app, job("k"), panicking).await;
    assert!(matches!(panicked, Err(OnceError::Panicked)), "{panicked:?}");

    let slow = Work::default();
    slow.gate.close();
    let late = once(&app, job("k").timeout(Duration::from_millis(50)), slow).await;
    assert!(matches!(late, Err(OnceError::TimedOut)), "{late:?}");

    app.assert_untouched().await;
    let retry = once(&app, job("k"), Work::default())
        .await
        .expect("the retry");
    assert_eq!(retry, Outcome::Executed(1));
}

async fn work_goes_on_when_its_caller_does_not(kind: Kind) {
    let app = Arc::new(TestApp::start(kind).await);
    let work = Work::default();
    work.gate.close();
    let caller = tokio::spawn({
        let (app, work) = (Arc::clone(&app), work.clone());
        async move { once(&app, job("k"), work).await }
    });
    work.gate.until_arrived(1).await;
    caller.abort();
    assert!(caller.await.is_err_and(|error| error.is_cancelled()));

    work.gate.open();
    let patient = once(&app, job("k").wait(Duration::from_mins(1)), work).await;
    assert_eq!(patient.expect("the retry"), Outcome::Replayed(1));
    assert_eq!(app.effects().await, 1);
}

/// It does not ask the store itself, or a storm of them would fall on a store that comes back.
async fn a_duplicate_in_memory_is_told_that_the_store_is_down(kind: Kind) {
    let setup = Setup {
        proxy: true,
        ..Setup::default()
    };
    let app = Arc::new(TestApp::with(kind, setup).await);
    let proxy = app.proxy.as_ref().expect("a proxy");
    let asking = Gate::default();
    asking.close();
    proxy.fail(
        "select current_setting('idem.gate')",
        Fault::Delay(asking.clone()),
    );
    let first = tokio::spawn({
        let app = Arc::clone(&app);
        async move { once(&app, job("k"), Work::default()).await }
    });
    asking.until_arrived(1).await;
    let mut duplicate = pin!(once(&app, job("k"), Work::default()));
    assert!(poll!(&mut duplicate).is_pending());

    app.end_sessions().await;
    asking.open();
    for told in [first.await.expect("no panic"), duplicate.await] {
        assert!(matches!(told, Err(OnceError::StoreUnavailable)), "{told:?}");
    }
}

/// That the same work is in another process is no news to other work: it asks by itself.
async fn other_work_in_memory_is_a_mismatch_whoever_has_the_key(kind: Kind) {
    let setup = Setup {
        proxy: true,
        ..Setup::default()
    };
    let app = Arc::new(TestApp::with(kind, setup).await);
    let elsewhere = Arc::new(app.beside().await);
    let what = |amount: u64| job("k").fingerprint(&amount).expect("a fingerprint");
    let work = Work::default();
    work.gate.close();
    let owner = tokio::spawn({
        let work = work.clone();
        async move { once(&elsewhere, what(5), work).await }
    });
    work.gate.until_arrived(1).await;
    let proxy = app.proxy.as_ref().expect("a proxy");
    let asking = Gate::default();
    asking.close();
    proxy.fail(
        "select current_setting('idem.gate')",
        Fault::Delay(asking.clone()),
    );
    let same = tokio::spawn({
        let app = Arc::clone(&app);
        async move { once(&app, what(5), Work::default()).await }
    });
    asking.until_arrived(1).await;
    let mut other = pin!(once(&app, what(6), Work::default()));
    assert!(poll!(&mut other).is_pending());
    asking.open();
    let same = same.await.expect("no panic");
    assert!(matches!(same, Err(OnceError::InProgress)), "{same:?}");
    let other = other.await;
    assert!(matches!(other, Err(OnceError::Mismatch)), "{other:?}");
    work.gate.open();
    let owner = owner.await.expect("no panic").expect("the first");
    assert_eq!(owner, Outcome::Executed(1));
}

/// The server counts in milliseconds, and none is no limit to it.
async fn work_with_less_than_a_millisecond_holds_its_key_no_longer(kind: Kind) {
    let app = TestApp::start(kind).await;
    let Handle::Postgres(handle) = &app.handle else {
        panic!("on PostgreSQL");
    };
    let sleep = async |tx: &mut PgConnection| {
        let slept = sqlx::raw_sql("select pg_sleep(60)").execute(tx).await;
        slept.map(drop).map_err(|_| Failed)
    };
    let what = job("k").timeout(Duration::from_micros(1));
    // Either side may be the first to give up.
    let late = handle.once(what, sleep).await;
    assert!(late.is_err(), "{late:?}");
    let retry = job("k").wait(Duration::from_secs(20));
    let retry = once(&app, retry, Work::default()).await;
    assert_eq!(retry.expect("a free key"), Outcome::Executed(1));
}

#[test]
fn what_identifies_no_work_is_refused() {
    let refused = [
        Once::new("Jobs", "nightly", "k").err(),
        Once::new("jobs", "", "k").err(),
        Once::new("jobs", "nightly", "").err(),
        job("k").ttl(Duration::ZERO).err(),
    ];
    assert!(matches!(
        refused,
        [
            Some(InvalidRequest::Scope),
            Some(InvalidRequest::Tenant(_)),
            Some(InvalidRequest::Key(_)),
            Some(InvalidRequest::Ttl(_)),
        ]
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_memory_works_with_the_default_pool() {
    let pool = sqlx::SqlitePool::connect("sqlite::memory:")
        .await
        .expect("SQLite opens");
    let handle = Idempotency::new(pool.clone());
    handle.migrate().await.expect("the tables are created");
    sqlx::raw_sql("create table lines (line text)")
        .execute(&pool)
        .await
        .expect("a table");
    let runs: Vec<_> = (0..20)
        .map(|n| {
            let handle = handle.clone();
            let what = job(&format!("k-{}", n % 4)).wait(Duration::from_mins(1));
            tokio::spawn(async move {
                let work = async move |tx: &mut SqliteConnection| {
                    sqlx::query("insert into lines values ('')")
                        .execute(tx)
                        .await
                        .map(|_| ())
                };
                handle.once(what, work).await.map(Outcome::into_inner)
            })
        })
        .collect();
    for run in runs {
        run.await.expect("no panic").expect("each gets its result");
    }
    let lines = sqlx::query_scalar("select count(*) from lines")
        .fetch_one(&pool)
        .await;
    assert_eq!(lines.ok(), Some(4_i64));
}
