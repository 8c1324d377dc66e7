//! Processes of which some have just been killed.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_tests::client::Pending;
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::process::ServerProcess;
use tokio::sync::RwLock;
use uuid::Uuid;

use crate::Run;

/// Long enough for a kill to come in between, short enough for the run to end.
const PAUSES: [&str; 2] = [
    "select pg_sleep(random() / 50)",
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000) \
     select count(*) from n",
];

pub(crate) struct Fleet {
    pub(crate) run: Run,
    pub(crate) database: TestDatabase,
    pub(crate) kills: AtomicUsize,
    servers: Vec<RwLock<Option<ServerProcess>>>,
    end: Instant,
}

/// A number below `limit` that nobody foresees.
pub(crate) fn random(limit: usize) -> usize {
    let [.., one, two] = *Uuid::new_v4().as_bytes();
    usize::from(u16::from_be_bytes([one, two])) % limit
}

impl Fleet {
    pub(crate) async fn start(run: Run) -> Self {
        let database = TestDatabase::create(run.kind).await;
        let mut fleet = Self {
            database,
            kills: AtomicUsize::new(0),
            servers: Vec::new(),
            end: Instant::now() + run.limit,
            run,
        };
        for _ in 0..fleet.run.processes {
            let server = fleet.serve().await;
            fleet.servers.push(RwLock::new(Some(server)));
        }
        fleet
    }

    async fn serve(&self) -> ServerProcess {
        let environment = [
            ("DATABASE_URL", self.database.url()),
            ("STATEMENT", PAUSES[usize::from(self.run.kind.is_sqlite())]),
            ("IDEM_SEEDED_BUG", self.run.bug),
        ];
        ServerProcess::start(&self.run.program, Path::new("."), &environment).await
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Kills one process after the other, and now and then a few sessions.
    pub(crate) async fn kill_until_over(&self) {
        while !self.is_over() {
            tokio::time::sleep(Duration::from_millis(30 + random(130) as u64)).await;
            if self.run.kind == Kind::Postgres && random(3) == 0 {
                self.end_sessions().await;
            }
            // Where there is one process only, there is never a second one.
            let alone = self.servers.len() == 1;
            let fresh = if alone {
                None
            } else {
                Some(self.serve().await)
            };
            let mut place = self.servers[random(self.servers.len())].write().await;
            if let Some(victim) = std::mem::replace(&mut *place, fresh) {
                victim.kill().await;
            }
            if place.is_none() {
                *place = Some(self.serve().await);
            }
            drop(place);
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn end_sessions(&self) {
        let kill = "select count(pg_terminate_backend(pid)) from (select pid \
                    from pg_stat_activity where datname = current_database() \
                    and backend_type = 'client backend' and xact_start is not null \
                    and pid <> pg_backend_pid() order by random() limit 2) as victims";
        self.database.pool().number(kill).await;
    }

    /// Begins a request to some process.
    pub(crate) async fn send(&self, account: &str, key: &str, body: &'static str) -> Pending {
        let server = self.servers[random(self.servers.len())].read().await;
        let server = server.as_ref().expect("a server is in its place");
        server
            .post("/effects")
            .account(account)
            .key(key)
            .header("x-label", key)
            .body(body)
            .start()
    }
}
