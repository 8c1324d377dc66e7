//! An outbox on a database of its own, and a sink that remembers what it got.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idem_runtime::outbox::{
    self, DeadLetter, Envelope, Message, Relay, RelayTask, Sink, SinkError,
};
use idem_runtime::{Backend, Idempotency};
use idem_tests::app::{Handle, Setting};
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
    pub(crate) timeout: Duration,
    pub(crate) poll: Duration,
    pub(crate) retention: Duration,
}

/// What the tests that say nothing else use.
pub(crate) const TUNING: Tuning = Tuning {
    max_attempts: 20,
    backoff: Duration::from_millis(1),
    lease: Duration::from_secs(30),
    timeout: Duration::from_secs(10),
    poll: Duration::from_millis(20),
    retention: Duration::from_hours(1),
};

impl Default for Tuning {
    fn default() -> Self {
        TUNING
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

fn tuned<DB: Backend, S: Sink>(handle: &Idempotency<DB>, sink: S, tuning: Tuning) -> Relay<DB, S> {
    Relay::new(handle, sink)
        .timeout(tuning.timeout)
        .max_attempts(tuning.max_attempts)
        .backoff(tuning.backoff, Duration::from_hours(1))
        .lease(tuning.lease)
        .poll(tuning.poll)
        .retention(tuning.retention)
}

impl Bus {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self::with(kind, &[]).await
    }

    pub(crate) async fn with(kind: Kind, settings: &[Setting]) -> Self {
        let database = TestDatabase::create(kind).await;
        let pool = database.connect(5, Duration::from_secs(10)).await;
        let handle = Handle::new(&pool, settings);
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
    pub(crate) async fn send<S: Sink + Clone>(&self, sink: &S, tuning: Tuning) -> u64 {
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

    /// Sends until there are so many dead letters.
    pub(crate) async fn until_dead<S: Sink + Clone>(&self, sink: &S, tuning: Tuning, count: usize) {
        self.until("dead letters", async || {
            self.send(sink, tuning).await;
            self.dead_letters().await.len() == count
        })
        .await;
    }

    /// Waits until everything is sent.
    pub(crate) async fn until_sent(&self) {
        let unsent = "select count(*) from outbox where state <> 2";
        self.until("everything sent", async || {
            self.pool.number(unsent).await == 0
        })
        .await;
    }

    /// Counts what was confirmed.
    pub(crate) async fn sent(&self) -> i64 {
        let sent = "select count(*) from outbox where state = 2";
        self.pool.number(sent).await
    }

    /// Sends until everything is sent.
    pub(crate) async fn until_sent_by<S: Sink + Clone>(&self, sink: &S) {
        let unsent = "select count(*) from outbox where state <> 2";
        self.until("everything sent", async || {
            self.send(sink, Tuning::default()).await;
            self.pool.number(unsent).await == 0
        })
        .await;
    }

    /// Waits until a relay has tried to send more than once, and sees that no attempt was counted.
    pub(crate) async fn until_tried_without_counting(&self) {
        let claims = "select coalesce(max(claim), 0) from outbox where state <> 2";
        self.until("attempts", async || self.pool.number(claims).await > 2)
            .await;
        let counted = "select count(*) from outbox where attempts > 0 or state = 3";
        assert_eq!(self.pool.number(counted).await, 0);
    }

    /// Waits until each attempt has ended in some way.
    pub(crate) async fn until_none_is_on_its_way(&self) {
        let claimed = "select count(*) from outbox where locked_until is not null";
        self.until("end of the attempts", async || {
            self.pool.number(claimed).await == 0
        })
        .await;
    }

    /// Sends the only message that is not sent through a sink which gets no confirmation: it fails
    /// each time, waits longer each time, and is a dead letter in the end.
    pub(crate) async fn assert_unconfirmed_until_dead<S: Sink + Clone>(&self, sink: &S) {
        let tuning = Tuning {
            max_attempts: 2,
            timeout: Duration::from_millis(300),
            backoff: Duration::from_millis(200),
            ..Tuning::default()
        };
        assert_eq!(self.send(sink, tuning).await, 0);
        let waits = "select count(*) from outbox where state = 1 and attempts = 1 \
                     and locked_until is null and due_at > created_at";
        assert_eq!(self.pool.number(waits).await, 1);
        assert_eq!(self.send(sink, tuning).await, 0, "it is not due yet");
        self.until_dead(sink, tuning, 1).await;
        let why = self.dead_letters().await.remove(0).error;
        assert!(
            why.as_deref().is_some_and(|why| why.contains("elapsed")),
            "{why:?}"
        );
    }

    async fn until(&self, what: &str, done: impl AsyncFn() -> bool) {
        let waiting = async {
            while !done().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let came = tokio::time::timeout(Duration::from_mins(1), waiting).await;
        assert!(came.is_ok(), "no {what}: {:?}", self.dead_letters().await);
    }

    /// Ends every pause, as time would.
    pub(crate) async fn end_pauses(&self) {
        self.pool
            .execute("update outbox set due_at = created_at")
            .await;
    }

    pub(crate) async fn rows(&self) -> i64 {
        self.pool.number("select count(*) from outbox").await
    }
}

/// Starts a relay in the background.
pub(crate) fn spawn<S: Sink + Clone>(handle: &Handle, sink: &S, tuning: Tuning) -> RelayTask {
    match handle {
        Handle::Postgres(handle) => tuned(handle, sink.clone(), tuning).spawn(),
        Handle::Sqlite(handle) => tuned(handle, sink.clone(), tuning).spawn(),
    }
}
