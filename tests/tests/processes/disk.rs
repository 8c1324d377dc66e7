//! The disk of PostgreSQL is full: nothing can be written into one of the tables any more.

use std::path::Path;
use std::time::Duration;

use idem_tests::cluster::Cluster;
use idem_tests::database::{Kind, Pool, connect};
use idem_tests::process::{Door, ServerProcess};
use sqlx::AssertSqlSafe;

use crate::serve;

const KEYS: &str = "insert into idempotency_keys (tenant, scope, key, fingerprint, state, attempt, \
     headers, body, created_at, expires_at) \
     select '', 'filler', substr(md5(random()::text), 1, 8), decode(repeat('00', 32), 'hex'), 2, 1, '', \
     decode(repeat('00', {size}), 'hex'), now(), now() - interval '1 second' \
     from generate_series(1, {rows})";
const STEPS: &str = "insert into idempotency_steps (tenant, scope, key, name, attempt, result, begun_at) \
     select '', 'filler', substr(md5(random()::text), 1, 8), '', 1, \
     decode(repeat('00', {size}), 'hex'), now() from generate_series(1, {rows})";
const EFFECTS: &str = "insert into effects (account, label) \
     select '', repeat('-', {size}) from generate_series(1, {rows})";

/// Writes rows until the disk is full, the last ones as small as any.
async fn fill(pool: &Pool, insert: &str) {
    let Pool::Postgres(pool) = pool else {
        panic!("a cluster is PostgreSQL");
    };
    for (rows, size) in [("100", "1500"), ("1", "0")] {
        let insert = insert.replace("{rows}", rows).replace("{size}", size);
        let full = loop {
            if let Err(error) = sqlx::raw_sql(AssertSqlSafe(&*insert)).execute(pool).await {
                break error;
            }
        };
        let code = full
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code);
        // From PostgreSQL 16 on a larger piece of a file is asked for in another way.
        let is_full = matches!(code.as_deref(), Some("53100" | "XX000"));
        assert!(is_full, "{full}");
    }
}

/// As the sweeper and autovacuum do.
async fn make_room(pool: &Pool, table: &str, filler: &str) {
    pool.execute(&format!("delete from {table} where {filler}"))
        .await;
    pool.execute(&format!("vacuum {table}")).await;
}

async fn open(cluster: &Cluster) -> Pool {
    let pool = connect(Kind::Postgres, &cluster.url(), 1, Duration::from_secs(30)).await;
    pool.create_tables().await;
    pool
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_full_disk_rolls_back_and_the_retry_runs_once_there_is_room() {
    let cluster = Cluster::start_on_a_small_disk();
    let pool = open(&cluster).await;
    let server = serve(&cluster.url()).await;
    for (insert, table, filler) in [
        (KEYS, "idempotency_keys", "scope = 'filler'"),
        (EFFECTS, "effects", "account = ''"),
    ] {
        let send = || server.post("/effects").key(table).header("x-label", table);
        fill(&pool, insert).await;
        let refused = send().await;
        assert_eq!(refused.status, 503, "{refused:?}");
        if table == "idempotency_keys" {
            // Where the handler's own write fails, the answer is the handler's.
            refused.assert_refused(503, "store-unavailable");
        }
        let effects = format!("select count(*) from effects where label = '{table}'");
        let keys = format!("select count(*) from idempotency_keys where key = '{table}'");
        let left = (pool.number(&effects).await, pool.number(&keys).await);
        assert_eq!(left, (0, 0), "effects and keys");

        make_room(&pool, table, filler).await;
        let retry = send().await;
        assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
        send().await.assert_replays(&retry);
        let left = (pool.number(&effects).await, pool.number(&keys).await);
        assert_eq!(left, (1, 1), "effects and keys");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn a_full_disk_loses_no_leased_order() {
    let cluster = Cluster::start_on_a_small_disk();
    let pool = open(&cluster).await;
    let program = Path::new(env!("CARGO_BIN_EXE_idem-order-server"));
    let url = cluster.url();
    let environment = [("DATABASE_URL", &*url), ("LEASE_MS", "600000")];
    let server = ServerProcess::start(program, Path::new("."), &environment).await;
    let send = || {
        server
            .post("/orders")
            .key("k")
            .json(r#"{ "card": "card_ok" }"#)
    };

    // At the claim: the handler does not run.
    fill(&pool, KEYS).await;
    send().await.assert_refused(503, "store-unavailable");
    assert_eq!(pool.number("select count(*) from effects").await, 0);
    make_room(&pool, "idempotency_keys", "scope = 'filler'").await;

    // At the last step: a retry goes on after the others.
    let point = Door::Point("recorded");
    server.close(point).await;
    let running = send().start();
    server.until_arrived(point, 1).await;
    fill(&pool, STEPS).await;
    server.open(point).await;
    assert_eq!(running.answer().await.status, 503);
    assert_eq!(pool.number("select count(*) from effects").await, 1);
    make_room(&pool, "idempotency_steps", "scope = 'filler'").await;

    let retry = send().await;
    assert!(retry.status == 201 && !retry.is_replay(), "{retry:?}");
    send().await.assert_replays(&retry);
    assert_eq!(pool.number("select count(*) from effects").await, 2);
}
