//! Processes of which some have just been killed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use idem_tests::client::Pending;
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::leased::Psp;
use idem_tests::process::ServerProcess;
use serde_json::Value;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::clients::{Body, Operation};
use crate::watch::Violation;
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
    /// How many operations clients have begun.
    pub(crate) keys: AtomicUsize,
    /// When the servers listened.
    pub(crate) begun: Instant,
    pub(crate) violations: Mutex<Vec<Violation>>,
    /// Held by whoever asks the database or ends its sessions: the harness's own are spared.
    pub(crate) own_session: tokio::sync::Mutex<()>,
    servers: Vec<RwLock<Option<ServerProcess>>>,
    operations: Mutex<Vec<Operation>>,
    /// Whose each effect is.
    effects: Mutex<HashMap<i64, (String, String)>>,
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
            keys: AtomicUsize::new(0),
            begun: Instant::now(),
            violations: Mutex::default(),
            own_session: tokio::sync::Mutex::default(),
            servers: Vec::new(),
            operations: Mutex::default(),
            effects: Mutex::default(),
            run,
        };
        for _ in 0..fleet.run.processes {
            let server = fleet.serve().await;
            fleet.servers.push(RwLock::new(Some(server)));
        }
        fleet.begun = Instant::now();
        fleet
    }

    async fn serve(&self) -> ServerProcess {
        let lease = LEASE.as_millis().to_string();
        let mut environment = vec![
            ("DATABASE_URL", self.database.url()),
            ("STATEMENT", PAUSES[usize::from(self.run.kind.is_sqlite())]),
            ("IDEM_SEEDED_BUG", self.run.bug),
            ("LEASE_MS", &lease),
            ("PAUSE_MS", "20"),
            ("RELAY", "1"),
        ];
        environment.extend(self.psp.iter().map(|psp| ("PSP_URL", psp.url())));
        ServerProcess::start(&self.run.program, Path::new("."), &environment).await
    }

    pub(crate) fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.run.limit || self.found().is_some()
    }

    /// How many processes serve at a time.
    pub(crate) fn size(&self) -> usize {
        self.servers.len()
    }

    /// The place of some process.
    pub(crate) fn anywhere(&self) -> usize {
        random(self.size())
    }

    pub(crate) fn begin_operation(&self) {
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    /// What clients were told, in the order of its end.
    pub(crate) fn operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        let operations = self.operations.lock();
        operations.unwrap_or_else(PoisonError::into_inner)
    }

    /// An effect is one operation's only.
    pub(crate) fn check_effect(&self, operation: &Operation) {
        let Operation { account, key, told } = operation;
        let effect = told.json::<Value>()[self.run.mode.effect_id()].as_i64();
        let effect = effect.expect("the id of an effect");
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = (account.clone(), key.clone());
        let first = effects.entry(effect).or_insert_with(|| owner.clone());
        if *first != owner {
            let (another, another_key) = first;
            self.violated(format!(
                "I6: {account} sees for {key} the effect of {another} for {another_key}"
            ));
        }
    }

    /// Kills one process after the other, and now and then a few sessions. In leased mode most
    /// stand still first, for about as long as a lease takes, and go on for a while.
    pub(crate) async fn kill_until_over(&self) {
        let mut frozen = JoinSet::new();
        // Where there is one process only, there is never a second one, and nobody else goes on
        // while it starts.
        let alone = self.servers.len() == 1;
        let most = if alone { 400 } else { 130 };
        while !self.is_over() {
            tokio::time::sleep(Duration::from_millis(30 + random(most) as u64)).await;
            if self.run.kind == Kind::Postgres && random(3) == 0 {
                self.end_sessions().await;
            }
            let fresh = if alone {
                None
            } else {
                Some(self.serve().await)
            };
            let mut place = self.servers[self.anywhere()].write().await;
            if let Some(victim) = std::mem::replace(&mut *place, fresh) {
                if self.run.mode == Mode::Leased && random(4) > 0 {
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
        // What stands still is killed with the run that found something.
        while self.found().is_none() && frozen.join_next().await.is_some() {}
    }

    async fn end_sessions(&self) {
        let _own = self.own_session.lock().await;
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

    /// Begins a request to the process in a place.
    pub(crate) async fn send(&self, at: usize, account: &str, key: &str, body: Body) -> Pending {
        let server = self.servers[at].read().await;
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

/// Lets a process stand still until about the moment at which others take over what it holds, now
/// and then until long after, and then go on for a while. Its leases end at some time in the last
/// third of a lease from now.
async fn freeze(victim: ServerProcess) {
    victim.freeze().await;
    let least = LEASE * 2 / 3;
    let most = if random(4) == 0 {
        LEASE * 4 / 3
    } else {
        LEASE * 2 / 3
    };
    let more = random(most.as_millis() as usize);
    tokio::time::sleep(least + Duration::from_millis(more as u64)).await;
    victim.thaw().await;
    tokio::time::sleep(LEASE / 2).await;
    victim.kill().await;
}
