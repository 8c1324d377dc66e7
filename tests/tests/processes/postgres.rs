//! PostgreSQL itself is killed, under load.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use idem_tests::cluster::Cluster;
use idem_tests::database::{Kind, Pool, connect};
use idem_tests::process::ServerProcess;

use crate::serve;

const CLIENTS: usize = 6;
const CRASHES: usize = 3;

/// A client that retries each key until it has an answer, and remembers it.
async fn pay(
    servers: Arc<[ServerProcess; 2]>,
    client: usize,
    over: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> HashMap<String, Bytes> {
    let mut told = HashMap::new();
    for n in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{client}-{n}");
        let deadline = Instant::now() + Duration::from_mins(2);
        for attempt in 0.. {
            let request = servers[attempt % 2].post("/effects").key(&key);
            let answer = request
                .header("x-label", &key)
                .start()
                .answer_if_any()
                .await;
            if let Some(answer) = answer.filter(|answer| answer.status == 201) {
                told.insert(key, answer.body);
                done.fetch_add(1, Ordering::Relaxed);
                break;
            }
            assert!(Instant::now() < deadline, "no answer for {key}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    told
}

async fn open(cluster: &Cluster) -> Pool {
    connect(Kind::Postgres, &cluster.url(), 2, Duration::from_secs(30)).await
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_crash_of_the_database_under_load_loses_no_success_and_repeats_no_effect() {
    let cluster = Cluster::start();
    open(&cluster).await.create_tables().await;
    let servers = [serve(&cluster.url()).await, serve(&cluster.url()).await];
    let (servers, over, done) = (
        Arc::new(servers),
        Arc::default(),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (servers, over, done) =
                (Arc::clone(&servers), Arc::clone(&over), Arc::clone(&done));
            tokio::spawn(pay(servers, client, over, done))
        })
        .collect();

    for _ in 0..CRASHES {
        let before = done.load(Ordering::Relaxed);
        while done.load(Ordering::Relaxed) < before + 40 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::task::block_in_place(|| cluster.crash());
    }
    over.store(true, Ordering::Relaxed);

    let pool = open(&cluster).await;
    let mut all = 0_usize;
    for client in clients {
        for (key, body) in client.await.expect("no panic") {
            let retry = servers[0]
                .post("/effects")
                .key(&key)
                .header("x-label", &key)
                .await;
            assert!(retry.is_replay() && retry.body == body, "{key}: {retry:?}");
            let effects = format!("select count(*) from effects where label = '{key}'");
            assert_eq!(pool.number(&effects).await, 1, "{key}");
            all += 1;
        }
    }
    assert!(all > CRASHES * 40);
    assert_eq!(
        pool.number("select count(*) from effects").await,
        i64::try_from(all).expect("few")
    );
}
