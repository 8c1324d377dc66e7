//! The client and the payments example, with a proxy between them that loses answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use idem_runtime::client::{Operation, RetryPolicy};
use idem_tests::database::{Kind, TestDatabase};
use idem_tests::process::{ServerProcess, build};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

const OPERATIONS: usize = 1000;

/// A proxy that loses 3 of 10 answers, and the connection with each.
struct LossyProxy {
    url: String,
    lost: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl LossyProxy {
    async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let lost = Arc::<AtomicUsize>::default();
        let task = tokio::spawn(accept(listener, server, Arc::clone(&lost))).abort_handle();
        Self { url, lost, task }
    }
}

impl Drop for LossyProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: String, lost: Arc<AtomicUsize>) {
    let answers = Arc::<AtomicUsize>::default();
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(&server)
            .await
            .expect("the example accepts");
        tokio::spawn(relay(
            client,
            server,
            Arc::clone(&answers),
            Arc::clone(&lost),
        ));
    }
}

/// Copies in both directions until one side leaves or an answer is lost. An answer of the example
/// comes in one piece.
async fn relay(
    mut client: TcpStream,
    mut server: TcpStream,
    answers: Arc<AtomicUsize>,
    lost: Arc<AtomicUsize>,
) {
    let (mut sent, mut replied) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        tokio::select! {
            Ok(read @ 1..) = client.read(&mut sent) => {
                if server.write_all(&sent[..read]).await.is_err() {
                    return;
                }
            }
            Ok(read @ 1..) = server.read(&mut replied) => {
                // 7 steps through a circle of 10: three of ten, well mixed.
                if answers.fetch_add(1, Ordering::Relaxed) * 7 % 10 < 3 {
                    lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                if client.write_all(&replied[..read]).await.is_err() {
                    return;
                }
            }
            else => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_operations_have_a_thousand_effects() {
    let program = build("example-payments", "example-payments").await;
    let database = TestDatabase::create(Kind::Sqlite).await;
    let folder = TempDir::new().expect("a folder");
    let environment = [("LISTEN", "127.0.0.1:0"), ("DATABASE_URL", database.url())];
    let server = ServerProcess::start(&program, folder.path(), &environment).await;
    let address = server.url().trim_start_matches("http://").to_owned();
    let proxy = LossyProxy::start(address).await;

    let http = reqwest::Client::new();
    let policy = RetryPolicy::new()
        .base_delay(Duration::from_millis(5))
        .max_attempts(20);
    let pay = |number: usize| {
        let body = format!(
            r#"{{"amount": {}, "currency": "usd", "source": "card_ok"}}"#,
            number + 1
        );
        let request = http
            .post(format!("{}/payments", proxy.url))
            .bearer_auth("alice-token");
        let request = request
            .header("content-type", "application/json")
            .body(body);
        let operation = Operation::new(request).expect("an operation");
        tokio::spawn(async move {
            let reply = operation.send(&policy).await.expect("a decision");
            assert_eq!(reply.status().as_u16(), 201);
            // Only what was done before can be replayed.
            assert!(reply.attempts().len() > 1 || !reply.is_replay());
            let attempts = reply.attempts().len();
            let payment = reply.into_response().bytes().await.expect("a body");
            let payment: serde_json::Value = serde_json::from_slice(&payment).expect("a payment");
            assert_eq!(payment["amount"], number + 1);
            (payment["id"].as_u64().expect("a number"), attempts)
        })
    };
    let paying = stream::iter(0..OPERATIONS).map(pay).buffer_unordered(16);
    let replies: Vec<_> = paying.map(|paid| paid.expect("no panic")).collect().await;

    let attempts: usize = replies.iter().map(|(_, attempts)| attempts).sum();
    let lost = proxy.lost.load(Ordering::Relaxed);
    assert!(attempts >= OPERATIONS + lost, "{attempts} attempts");
    assert!((300..600).contains(&lost), "{lost} answers were lost");
    let ids: HashSet<_> = replies.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), OPERATIONS);
    let count = "select count(*) from payments";
    let rows = database.pool().number(count).await;
    assert_eq!(rows, i64::try_from(OPERATIONS).expect("a number"));
}
