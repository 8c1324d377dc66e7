//! Duplicates from many clients, some of which leave, to processes that are killed all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use idem_tests::Answer;
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::process::ServerProcess;
use tokio::sync::RwLock;
use uuid::Uuid;

use crate::serve_with;

const CLIENTS: usize = 8;
const KILLS: usize = 40;

/// Long enough for a kill to come in between, short enough for the run to end.
const STATEMENT: (&str, &str) = ("STATEMENT", "select pg_sleep(random() / 50)");

/// Processes of which some have just been killed.
struct Fleet {
    database: TestDatabase,
    servers: Vec<RwLock<ServerProcess>>,
    done: AtomicBool,
    kills: AtomicUsize,
}

/// A number below `limit` that nobody foresees.
fn random(limit: usize) -> usize {
    usize::from(Uuid::new_v4().as_bytes()[0]) % limit
}

impl Fleet {
    async fn start() -> Self {
        let database = TestDatabase::create(Kind::Postgres).await;
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(RwLock::new(serve_with(database.url(), &[STATEMENT]).await));
        }
        Self {
            database,
            servers,
            done: AtomicBool::new(false),
            kills: AtomicUsize::new(0),
        }
    }

    /// Kills one process after the other, and now and then a few sessions.
    async fn kill_all_the_time(&self) {
        while !self.done.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20 + random(60) as u64)).await;
            if random(3) == 0 {
                let kill = "select count(pg_terminate_backend(pid)) from (select pid \
                            from pg_stat_activity where datname = current_database() \
                            and backend_type = 'client backend' and xact_start is not null \
                            and pid <> pg_backend_pid() order by random() limit 2) as victims";
                self.database.pool().number(kill).await;
            }
            let fresh = serve_with(self.database.url(), &[STATEMENT]).await;
            let mut server = self.servers[random(self.servers.len())].write().await;
            std::mem::replace(&mut *server, fresh).kill().await;
            drop(server);
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends one request to some process; `None` when no answer came back.
    async fn send(&self, key: &str) -> Option<Answer> {
        let server = self.servers[random(self.servers.len())].read().await;
        let pending = server
            .post("/effects")
            .key(key)
            .header("x-label", key)
            .start();
        drop(server);
        if random(7) == 0 {
            tokio::time::sleep(Duration::from_millis(random(10) as u64)).await;
            pending.leave();
            return None;
        }
        pending.answer_if_any().await
    }

    /// Retries until there is a success, and returns every success.
    async fn persist(&self, key: &str) -> Vec<Answer> {
        let mut successes = Vec::new();
        while successes.is_empty() {
            let (one, other) = tokio::join!(self.send(key), self.send(key));
            for answer in [one, other].into_iter().flatten() {
                match answer.status {
                    201 => successes.push(answer),
                    409 => answer.assert_refused(409, "in-progress"),
                    _ => assert_eq!(answer.status, 503, "{answer:?}"),
                }
            }
        }
        successes
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_crash_repeats_or_loses_an_effect() {
    let fleet = Arc::new(Fleet::start().await);
    let killer = tokio::spawn({
        let fleet = Arc::clone(&fleet);
        async move { fleet.kill_all_the_time().await }
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let fleet = Arc::clone(&fleet);
            tokio::spawn(async move {
                let mut history = Vec::new();
                while fleet.kills.load(Ordering::Relaxed) < KILLS {
                    let key = format!("{client}-{}", history.len());
                    history.push((fleet.persist(&key).await, key));
                }
                history
            })
        })
        .collect();
    let mut history = Vec::new();
    for client in clients {
        history.extend(client.await.expect("no panic"));
    }
    fleet.done.store(true, Ordering::Relaxed);
    killer.await.expect("no panic");
    assert!(
        fleet.kills.load(Ordering::Relaxed) > 10,
        "hardly anything was killed"
    );

    fleet.database.until_no_transaction_is_open().await;
    for (successes, key) in &history {
        let server = fleet.servers[0].read().await;
        let last = server
            .post("/effects")
            .key(key)
            .header("x-label", key)
            .await;
        assert!(last.status == 201 && last.is_replay(), "{key}: {last:?}");
        for success in successes {
            assert_eq!(success.body, last.body, "two answers for {key}");
            assert_eq!(success.headers["location"], last.headers["location"]);
        }
        let effects = format!("select count(*) from effects where label = '{key}'");
        assert_eq!(
            fleet.database.pool().number(&effects).await,
            1,
            "effects of {key}"
        );
    }
    let all = i64::try_from(history.len()).expect("a small number");
    assert_eq!(
        (fleet.database.effects().await, fleet.database.keys().await),
        (all, all)
    );
}
