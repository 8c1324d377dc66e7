//! An outbox on a database of its own, and a sink that remembers what it got.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idem_runtime::outbox::{
    self, DeadLetter, Envelope, Message, Relay, RelayTask, Sink, SinkError,
};
use idem_runtime::{Backend, Idempotency};
use idem_tests::app::Handle;
use idem_tests::database::{Pool, TestDatabase};
use idem_tests::{Gate, Kind};
use uuid::Uuid;

/// A database with the library's tables.
pub(crate) struct Bus {
    pub(crate) database: TestDatabase,
    pub(crate) pool: Pool,
    pub(crate) handle: Handle,
}

/// How the relays of a test differ from the default.
#[derive(Clone, Copy)]
pub(crate) struct Tuning {
    pub(crate) max_attempts: u32,
    pub(crate) backoff: Duration,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) retention: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            max_attempts: 20,
            backoff: Duration::from_millis(1),
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(20),
            retention: Duration::from_hours(1),
        }
    }
}

/// Answers for a message, by its label.
type Answer = Arc<dyn Fn(&Envelope) -> Result<(), SinkError> + Send + Sync>;

/// Remembers what it confirmed, in order.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(crate) gate: Gate,
    answer: Answer,
    confirmed: Arc<Mutex<Vec<Envelope>>>,
    attempts: Arc<Mutex<Vec<Envelope>>>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self::answering(|_| Ok(()))
    }

    pub(crate) fn answering(
        answer: impl Fn(&Envelope) -> Result<(), SinkError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            gate: Gate::default(),
            answer: Arc::new(answer),
            confirmed: Arc::default(),
            attempts: Arc::default(),
        }
    }

    /// The labels of what was confirmed, in order.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.confirmed().iter().map(label).collect()
    }

    pub(crate) fn confirmed(&self) -> Vec<Envelope> {
        lock(&self.confirmed).clone()
    }

    /// Everything that came, confirmed or not.
    pub(crate) fn attempts(&self) -> Vec<Envelope> {
        lock(&self.attempts).clone()
    }

    /// Waits until so many are confirmed.
    pub(crate) async fn until_confirmed(&self, count: usize) {
        let all = async {
            while lock(&self.confirmed).len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let came = tokio::time::timeout(Duration::from_mins(1), all).await;
        assert!(came.is_ok(), "{:?} of {count} confirmed", self.labels());
    }
}

fn lock(list: &Mutex<Vec<Envelope>>) -> std::sync::MutexGuard<'_, Vec<Envelope>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn label(envelope: &Envelope) -> String {
    String::from_utf8_lossy(&envelope.message.payload).into_owned()
}

impl Sink for Recorder {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        lock(&self.attempts).push(envelope.clone());
        self.gate.pass().await;
        (self.answer)(envelope)?;
        lock(&self.confirmed).push(envelope.clone());
        Ok(())
    }
}

/// A message whose payload is its label.
pub(crate) fn message(key: &str, label: &str) -> Message {
    Message {
        topic: "test".into(),
        key: Some(key.into()),
        payload: label.to_owned().into(),
        ..Message::default()
    }
}

fn tuned<DB: Backend>(
    handle: &Idempotency<DB>,
    sink: Recorder,
    tuning: Tuning,
) -> Relay<DB, Recorder> {
    Relay::new(handle, sink)
        .max_attempts(tuning.max_attempts)
        .backoff(tuning.backoff, Duration::from_secs(5))
        .lease(tuning.lease)
        .poll(tuning.poll)
        .retention(tuning.retention)
}

impl Bus {
    pub(crate) async fn start(kind: Kind) -> Self {
        let database = TestDatabase::create(kind).await;
        let pool = database.connect(5, Duration::from_secs(10)).await;
        let handle = Handle::new(&pool, &[]);
        handle.migrate().await.expect("the tables are created");
        Self {
            database,
            pool,
            handle,
        }
    }

    /// A handle like that of another process.
    pub(crate) async fn another_handle(&self) -> Handle {
        Handle::new(
            &self.database.connect(5, Duration::from_secs(10)).await,
            &[],
        )
    }

    /// Writes messages in one transaction that commits.
    pub(crate) async fn publish(&self, messages: impl IntoIterator<Item = Message>) -> Vec<Uuid> {
        let mut ids = Vec::new();
        match &self.pool {
            Pool::Postgres(pool) => {
                let mut tx = pool.begin().await.expect("a transaction");
                for message in messages {
                    ids.push(outbox::publish(&mut tx, message).await.expect("a row"));
                }
                tx.commit().await.expect("a commit");
            }
            Pool::Sqlite(pool) => {
                let mut tx = pool
                    .begin_with("begin immediate")
                    .await
                    .expect("a transaction");
                for message in messages {
                    ids.push(outbox::publish(&mut tx, message).await.expect("a row"));
                }
                tx.commit().await.expect("a commit");
            }
        }
        ids
    }

    /// Sends what is due now.
    pub(crate) async fn send(&self, sink: &Recorder, tuning: Tuning) -> u64 {
        let sent = match &self.handle {
            Handle::Postgres(handle) => tuned(handle, sink.clone(), tuning).send_due().await,
            Handle::Sqlite(handle) => tuned(handle, sink.clone(), tuning).send_due().await,
        };
        sent.expect("a relay that claims")
    }

    pub(crate) async fn dead_letters(&self) -> Vec<DeadLetter> {
        let dead = match &self.handle {
            Handle::Postgres(handle) => handle.outbox().dead_letters(100).await,
            Handle::Sqlite(handle) => handle.outbox().dead_letters(100).await,
        };
        dead.expect("a list")
    }

    pub(crate) async fn resend(&self, id: Uuid) -> bool {
        let resent = match &self.handle {
            Handle::Postgres(handle) => handle.outbox().resend(id).await,
            Handle::Sqlite(handle) => handle.outbox().resend(id).await,
        };
        resent.expect("an answer")
    }

    pub(crate) async fn rows(&self) -> i64 {
        self.pool.number("select count(*) from outbox").await
    }
}

/// Starts a relay in the background.
pub(crate) fn spawn(handle: &Handle, sink: &Recorder, tuning: Tuning) -> RelayTask {
    match handle {
        Handle::Postgres(handle) => tuned(handle, sink.clone(), tuning).spawn(),
        Handle::Sqlite(handle) => tuned(handle, sink.clone(), tuning).spawn(),
    }
}
