//! How fast expired keys go, and what the others notice.

use std::time::Instant;

use idem_runtime::Idempotency;
use sqlx::{AssertSqlSafe, Executor};

use crate::Failure;
use crate::cluster::Cluster;
use crate::load::{Keys, Plan};
use crate::report;
use crate::rounds::median;
use crate::serve::{Database, Server, pool};

/// About as long as a batch of the sweep.
const COUNT: &str = "select count(*) from generate_series(1, 30000)";

/// Prints the rate, and the p99 of fresh requests before it, beside it, and, as a control, beside a
/// connection that keeps the server as busy and touches no row, lock, or log.
///
/// # Errors
/// When a process fails.
pub async fn rate(
    program: &str,
    cluster: &Cluster,
    keys: u64,
    rounds: usize,
) -> Result<(), Failure> {
    let database = Database {
        url: cluster.database().await?,
        connections: 16,
        ping: true,
    };
    let server = Server::start(program, "idem", &database).await?;
    let pool = pool(&Database {
        connections: 2,
        ..database.clone()
    })
    .await?;
    let handle = Idempotency::new(pool.clone());
    let plan = |connections, seconds| Plan {
        port: server.port,
        path: "/payments".to_owned(),
        connections,
        seconds,
        keys: Keys::Fresh,
        round: 0,
        storm: None,
    };
    let (mut rates, mut quiet, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    let mut control = Vec::new();
    for _ in 0..rounds {
        // A round with a load and one without: the rate is the sweeper's alone only without.
        fill(&pool, keys).await?;
        let begun = Instant::now();
        let mut swept = handle.sweep().await?;
        while swept < keys {
            swept += handle.sweep().await?;
        }
        rates.push(swept as f64 / begun.elapsed().as_secs_f64());

        quiet.push(plan(4, 1.0).run().await?.p99_us);
        fill(&pool, keys).await?;
        let load = plan(4, 1.0);
        let load = tokio::spawn(async move { load.run().await });
        while !load.is_finished() && handle.sweep().await? > 0 {}
        beside.push(load.await??.p99_us);

        let load = plan(4, 1.0);
        let load = tokio::spawn(async move { load.run().await });
        while !load.is_finished() {
            pool.execute(COUNT).await?;
        }
        control.push(load.await??.p99_us);
        pool.execute("delete from idempotency_keys where expires_at < now()")
            .await?;
        pool.execute("vacuum idempotency_keys").await?;
    }
    let ratio = |of: &[f64]| median(of.iter().zip(&quiet).map(|(of, quiet)| of / quiet));
    let ratios = [ratio(&beside), ratio(&control)];
    report::table(
        "Sweep",
        &[
            "expired keys",
            "rows/s",
            "others' p99 µs, quiet",
            "beside the sweep",
            "ratio",
            "beside a connection that counts",
            "ratio",
        ],
        &[vec![
            keys.to_string(),
            format!("{:.0}", median(rates)),
            format!("{:.0}", median(quiet)),
            format!("{:.0}", median(beside)),
            format!("{:.2}", ratios[0]),
            format!("{:.0}", median(control)),
            format!("{:.2}", ratios[1]),
        ]],
    );
    Ok(())
}

async fn fill(pool: &sqlx::PgPool, keys: u64) -> Result<(), sqlx::Error> {
    let fill = format!(
        "insert into idempotency_keys (tenant, scope, key, fingerprint, state, attempt, status, \
         headers, body, created_at, completed_at, expires_at) \
         select (n % 1000)::text, 'old', md5(random()::text), decode(repeat('00', 32), 'hex'), 2, 1, 201, \
         '', decode(repeat('61', 300), 'hex'), now() - interval '2 days', now() - interval '2 days', \
         now() - interval '1 day' + n * interval '1 microsecond' from generate_series(1, {keys}) as n"
    );
    pool.execute(AssertSqlSafe(fill)).await?;
    pool.execute("vacuum analyze idempotency_keys").await?;
    Ok(())
}
