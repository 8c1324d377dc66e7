//! Whether a full table slows a request down.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::Failure;
use crate::cluster::Cluster;
use crate::load::{Keys, Plan};
use crate::report;
use crate::rounds::{Contender, Effort, alternate, ratio};
use crate::serve::{Database, Server};

/// Prints the latency of claims and replays by the number of stored keys.
///
/// # Errors
/// When a process fails.
pub async fn latency(
    program: &str,
    cluster: &Cluster,
    sizes: &[u64],
    effort: Effort,
) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for &size in sizes {
        let database = Database {
            url: cluster.database().await?,
            connections: 4,
            ping: true,
        };
        let server = Server::start(program, "idem", &database).await?;
        fill(&database.url, server.port, size).await?;
        servers.push((size, server));
    }
    for keys in ["claim", "replay"] {
        let mut contenders: Vec<_> = servers
            .iter()
            .map(|(size, server)| {
                let keys = if keys == "claim" {
                    Keys::Fresh
                } else {
                    Keys::Stored(*size)
                };
                Contender::new(&size.to_string(), server, "/payments", keys)
            })
            .collect();
        alternate(&mut contenders, 1, effort).await?;
        let rows: Vec<_> = contenders
            .iter()
            .map(|contender| {
                vec![
                    contender.name.clone(),
                    format!("{:.0}", contender.median(|seen| seen.p50_us)),
                    format!(
                        "{:.2}",
                        ratio(&contender.seen, &contenders[0].seen, |seen| seen.p50_us)
                    ),
                ]
            })
            .collect();
        report::table(
            &format!("Growth: {keys}"),
            &["stored keys", "p50 µs", "against the smallest"],
            &rows,
        );
    }
    Ok(())
}

/// Copies one finished key: the fingerprint of its request does not depend on the key.
async fn fill(url: &str, port: u16, size: u64) -> Result<(), Failure> {
    let seed = Plan {
        port,
        path: "/payments".to_owned(),
        connections: 1,
        seconds: 0.1,
        keys: Keys::Replay,
        round: 0,
        storm: None,
    };
    seed.run().await?;
    let mut conn = PgConnection::connect(url).await?;
    let fill = format!(
        "insert into idempotency_keys (tenant, scope, key, fingerprint, state, attempt, status, \
         headers, body, created_at, completed_at, expires_at) \
         select '0', scope, 'fill-' || n, fingerprint, state, attempt, status, headers, body, \
         created_at, completed_at, expires_at + n * interval '1 microsecond' \
         from (select * from idempotency_keys limit 1) as one, generate_series(0, {size} - 1) as n"
    );
    conn.execute(AssertSqlSafe(fill)).await?;
    conn.execute("vacuum analyze idempotency_keys").await?;
    Ok(())
}
