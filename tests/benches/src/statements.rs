//! What a fresh request asks of the server: its statements, their cost, and the dead tuples.

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection, Row};

use crate::Failure;
use crate::cluster::Cluster;
use crate::load::{Keys, Plan};
use crate::report;
use crate::serve::{Database, Server};

/// Statements that less than half of the requests send are the pool's, or the first of their kind.
const STATEMENTS: &str = "\
    select regexp_replace(query, '\\s+', ' ', 'g') as query, calls::float8 as calls, \
    mean_exec_time * 1000 as exec, mean_plan_time * 1000 as plan, plans::float8 as plans \
    from pg_stat_statements where calls * 2 > $1 order by calls desc, query";

/// Prints them for idem and for the hand-written pattern.
///
/// # Errors
/// When a process fails.
pub async fn of_a_request(program: &str, cluster: &Cluster) -> Result<(), Failure> {
    let mut dead = Vec::new();
    for (variant, path, keys, table) in [
        ("limit", "/payments", Keys::Fresh, "payments"),
        ("idem", "/payments", Keys::Fresh, "idempotency_keys"),
        ("idem", "/payments", Keys::Replay, "idempotency_keys"),
        ("idem", "/leased", Keys::Fresh, "idempotency_keys"),
        ("zero2prod", "/payments", Keys::Fresh, "saved"),
    ] {
        let database = Database {
            url: cluster.database().await?,
            connections: 1,
            ping: true,
        };
        let mut conn = PgConnection::connect(&database.url).await?;
        // Off elsewhere, where it would only cost.
        conn.execute("alter role idem set pg_stat_statements.track = 'all'")
            .await?;
        conn.execute("alter role idem set pg_stat_statements.track_planning = on")
            .await?;
        let server = Server::start(program, variant, &database).await?;
        let mut plan = Plan {
            port: server.port,
            path: path.to_owned(),
            connections: 1,
            seconds: 0.1,
            keys,
            round: 0,
            storm: None,
        };
        plan.run().await?;
        conn.execute("select pg_stat_statements_reset()").await?;
        plan.seconds = 1.0;
        plan.run().await?;
        let requests =
            sqlx::query_scalar::<_, f64>("select max(calls)::float8 from pg_stat_statements")
                .fetch_one(&mut conn)
                .await?;
        let rows = sqlx::query(STATEMENTS)
            .bind(requests)
            .fetch_all(&mut conn)
            .await?;
        let mut lines = Vec::new();
        for row in rows {
            let query: String = row.try_get("query")?;
            let figure = |column: &str| row.try_get::<f64, _>(column);
            lines.push(vec![
                query.chars().take(72).collect::<String>().replace('|', " "),
                format!("{:.2}", figure("calls")? / requests),
                format!("{:.1}", figure("exec")?),
                format!(
                    "{:.1}",
                    figure("plan")? * figure("plans")? / figure("calls")?
                ),
            ]);
        }
        let what = if matches!(keys, Keys::Fresh) {
            "fresh"
        } else {
            "replay"
        };
        report::table(
            &format!("Statements of a request: {variant}{path}, {what}"),
            &["statement", "each request", "execution µs", "planning µs"],
            &lines,
        );
        if matches!(keys, Keys::Fresh) && variant != "limit" {
            // Statistics come late: an idle backend reports after a second.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            drop(server);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let row = sqlx::query(
                "select n_tup_ins, n_tup_upd + n_tup_del as dead, n_tup_hot_upd as hot \
                 from pg_stat_user_tables where relname = $1",
            )
            .bind(table)
            .fetch_one(&mut conn)
            .await?;
            let count = |column: &str| row.try_get::<i64, _>(column).map(|count| count as f64);
            dead.push(vec![
                format!("{variant}{path}"),
                format!("{:.2}", count("dead")? / count("n_tup_ins")?),
                format!("{:.2}", count("hot")? / count("n_tup_ins")?),
            ]);
        }
    }
    report::table(
        "Dead tuples of a fresh request in the table of the keys",
        &["", "dead tuples", "of which on the same page (HOT)"],
        &dead,
    );
    Ok(())
}
