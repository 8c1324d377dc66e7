//! Processes of which some have just been killed.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_tests::client::Pending;
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::leased::Psp;
use idem_tests::process::ServerProcess;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::clients::Body;
use crate::{Mode, Run};

/// Long enough for a kill to come in between, short enough for the run to end.
const PAUSES: [&str; 2] = [
    "select pg_sleep(random() / 50)",
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000) \
     select count(*) from n",
];

/// A third of it is longer than a busy machine makes a heartbeat wait.
const LEASE: Duration = Duration::from_secs(1);

pub(crate) struct Fleet {
    pub(crate) run: Run,
    pub(crate) database: TestDatabase,
    /// Who charges in leased mode.
    pub(crate) psp: Option<Psp>,
    pub(crate) kills: AtomicUsize,
    pub(crate) freezes: AtomicUsize,
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
        let psp = match run.mode {
            Mode::Atomic => None,
            Mode::Leased => Some(Psp::start().await),
        };
        let mut fleet = Self {
            database,
            psp,
            kills: AtomicUsize::new(0),
            freezes: AtomicUsize::new(0),
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
        let lease = LEASE.as_millis().to_string();
        let mut environment = vec![
            ("DATABASE_URL", self.database.url()),
            ("STATEMENT", PAUSES[usize::from(self.run.kind.is_sqlite())]),
            ("IDEM_SEEDED_BUG", self.run.bug),
            ("LEASE_MS", &lease),
            ("PAUSE_MS", "10"),
            ("RELAY", "1"),
        ];
        environment.extend(self.psp.iter().map(|psp| ("PSP_URL", psp.url())));
        ServerProcess::start(&self.run.program, Path::new("."), &environment).await
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Kills one process after the other, and now and then a few sessions. In leased mode some
    /// stand still first, for longer than their lease, and go on for a while.
    pub(crate) async fn kill_until_over(&self) {
        let mut frozen = JoinSet::new();
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
                if self.run.mode == Mode::Leased && random(4) == 0 {
                    self.freezes.fetch_add(1, Ordering::Relaxed);
                    frozen.spawn(freeze(victim));
                } else {
                    victim.kill().await;
                }
            }
            if place.is_none() {
                *place = Some(self.serve().await);
            }
            drop(place);
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
        frozen.join_all().await;
    }

    async fn end_sessions(&self) {
        let kill = "select count(pg_terminate_backend(pid)) from (select pid \
                    from pg_stat_activity where datname = current_database() \
                    and backend_type = 'client backend' and xact_start is not null \
                    and pid <> pg_backend_pid() order by random() limit 2) as victims";
        self.database.pool().number(kill).await;
    }

    /// The tenant of an operation. An effect of a leased order does not tell its key.
    pub(crate) fn account(&self, account: &str, key: &str) -> String {
        match self.run.mode {
            Mode::Atomic => account.to_owned(),
            Mode::Leased => format!("{account}-{key}"),
        }
    }

    /// Begins a request to some process.
    pub(crate) async fn send(&self, account: &str, key: &str, body: Body) -> Pending {
        let server = self.servers[random(self.servers.len())].read().await;
        let server = server.as_ref().expect("a server is in its place");
        let request = match self.run.mode {
            Mode::Atomic => server
                .post("/told")
                .header("x-label", key)
                .body(body.text()),
            Mode::Leased => server.post("/orders").json(body.text()),
        };
        request.account(account).key(key).start()
    }
}

async fn freeze(victim: ServerProcess) {
    victim.freeze().await;
    tokio::time::sleep(LEASE * 2).await;
    victim.thaw().await;
    tokio::time::sleep(LEASE / 2).await;
    victim.kill().await;
}
