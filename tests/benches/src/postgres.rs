//! The PostgreSQL tables.

use crate::Failure;
use crate::cluster::Cluster;
use crate::load::{Keys, Plan, Storm};
use crate::report;
use crate::rounds::{Contender, alternate, median, ratio};
use crate::serve::{Database, Server};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub rounds: usize,
    pub seconds: f64,
}

/// Throughput and latency at several numbers of connections.
///
/// # Errors
/// When a process fails.
pub async fn throughput(
    program: &str,
    peers: Option<&str>,
    cluster: &Cluster,
    title: &str,
    ping: bool,
    connections: &[usize],
    effort: Effort,
) -> Result<(), Failure> {
    let database = Database {
        url: cluster.database().await?,
        connections: 16,
        ping,
    };
    let limit = Server::start(program, "limit", &database).await?;
    let idem = Server::start(program, "idem", &database).await?;
    let zero2prod = Server::start(program, "zero2prod", &database).await?;
    let mut others = Vec::new();
    for variant in [
        "cratestack",
        "idempotent",
        "axum-idempotent",
        "axum-sqlx-tx",
    ] {
        if let Some(peers) = peers {
            others.push((variant, Server::start(peers, variant, &database).await?));
        }
    }
    for &connections in connections {
        let plan = |server: &Server, path: &str, keys| Plan {
            port: server.port,
            path: path.to_owned(),
            connections,
            seconds: effort.seconds,
            keys,
            storm: None,
        };
        let mut contenders = vec![
            Contender::new("the limit", plan(&limit, "/payments", Keys::Fresh)),
            Contender::new("idem, fresh", plan(&idem, "/payments", Keys::Fresh)),
            Contender::new("idem, replay", plan(&idem, "/payments", Keys::Replay)),
            Contender::new("idem, leased, empty", plan(&idem, "/leased", Keys::Fresh)),
            Contender::new(
                "zero2prod, fresh",
                plan(&zero2prod, "/payments", Keys::Fresh),
            ),
            Contender::new(
                "zero2prod, replay",
                plan(&zero2prod, "/payments", Keys::Replay),
            ),
        ];
        for (variant, server) in &others {
            let fresh = format!("{variant}, fresh");
            contenders.push(Contender::new(
                &fresh,
                plan(server, "/payments", Keys::Fresh),
            ));
            if *variant != "axum-sqlx-tx" {
                let replay = format!("{variant}, replay");
                contenders.push(Contender::new(
                    &replay,
                    plan(server, "/payments", Keys::Replay),
                ));
            }
        }
        alternate(&mut contenders, effort.rounds).await?;
        report::compare(
            &format!("{title}, one statement, {connections} connections"),
            &contenders,
        );
        let [_, ours, _, _, pattern, ..] = &contenders[..] else {
            continue;
        };
        println!(
            "\nidem against zero2prod, fresh: {:.2}",
            ratio(&ours.seen, &pattern.seen, |seen| seen.per_second)
        );

        let mut usual = vec![
            Contender::new("the limit", plan(&limit, "/transfers", Keys::Fresh)),
            Contender::new("idem, fresh", plan(&idem, "/transfers", Keys::Fresh)),
            Contender::new(
                "zero2prod, fresh",
                plan(&zero2prod, "/transfers", Keys::Fresh),
            ),
        ];
        for (variant, server) in &others {
            usual.push(Contender::new(
                &format!("{variant}, fresh"),
                plan(server, "/transfers", Keys::Fresh),
            ));
        }
        alternate(&mut usual, effort.rounds).await?;
        report::compare(
            &format!("{title}, four statements, {connections} connections"),
            &usual,
        );
    }
    Ok(())
}

/// What a storm of duplicates does to other keys, with a pool of five.
///
/// # Errors
/// When a process fails.
pub async fn hot_key(program: &str, cluster: &Cluster, effort: Effort) -> Result<(), Failure> {
    let database = Database {
        url: cluster.database().await?,
        connections: 5,
        ping: true,
    };
    let idem = Server::start(program, "idem", &database).await?;
    let plan = |storm| Plan {
        port: idem.port,
        path: "/payments".to_owned(),
        connections: 1,
        seconds: effort.seconds,
        keys: Keys::Fresh,
        storm,
    };
    let storm = |path: &str| {
        Some(Storm {
            path: path.to_owned(),
            clients: 64,
            pause_ms: 50,
        })
    };
    let mut contenders = vec![
        Contender::new("alone", plan(None)),
        Contender::new("64 clients repeat one key", plan(storm("/slow"))),
    ];
    alternate(&mut contenders, effort.rounds * 2).await?;
    let rows: Vec<Vec<String>> = contenders
        .iter()
        .map(|contender| {
            let mut storm = std::collections::BTreeMap::<u16, u64>::new();
            for seen in &contender.seen {
                for (status, count) in &seen.storm_statuses {
                    *storm.entry(*status).or_default() += count;
                }
            }
            vec![
                contender.name.clone(),
                format!(
                    "{:.0}",
                    median(contender.seen.iter().map(|seen| seen.p50_us))
                ),
                format!(
                    "{:.0}",
                    median(contender.seen.iter().map(|seen| seen.p99_us))
                ),
                format!(
                    "{:.2}",
                    ratio(&contender.seen, &contenders[0].seen, |seen| seen.p99_us)
                ),
                format!("{storm:?}"),
            ]
        })
        .collect();
    report::table(
        "Hot key: other keys beside a storm, pool of 5",
        &[
            "",
            "p50 µs",
            "p99 µs",
            "p99 against alone",
            "answers to the storm",
        ],
        &rows,
    );
    Ok(())
}

/// Two builds of this program against each other: what a change to the engine gave.
///
/// # Errors
/// When a process fails.
pub async fn before_and_after(
    before: &str,
    after: &str,
    cluster: &Cluster,
    effort: Effort,
) -> Result<(), Failure> {
    let database = Database {
        url: cluster.database().await?,
        connections: 16,
        ping: true,
    };
    let other = Database {
        url: cluster.database().await?,
        ..database.clone()
    };
    let before = Server::start(before, "idem", &database).await?;
    let after = Server::start(after, "idem", &other).await?;
    for (what, path, keys) in [
        ("fresh", "/payments", Keys::Fresh),
        ("replay", "/payments", Keys::Replay),
        ("leased", "/leased", Keys::Fresh),
    ] {
        let plan = |server: &Server| Plan {
            port: server.port,
            path: path.to_owned(),
            connections: 16,
            seconds: effort.seconds,
            keys,
            storm: None,
        };
        let mut contenders = [
            Contender::new("before", plan(&before)),
            Contender::new("after", plan(&after)),
        ];
        alternate(&mut contenders, effort.rounds).await?;
        report::compare(&format!("A change, {what}"), &contenders);
    }
    Ok(())
}
