//! The PostgreSQL tables.

use crate::Failure;
use crate::cluster::Cluster;
use crate::load::{Keys, Storm};
use crate::report;
use crate::rounds::{Contender, Effort, alternate, ratio};
use crate::serve::{Database, Server};

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
    let by_hand = Server::start(program, "by-hand", &database).await?;
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
        let mut contenders = vec![
            Contender::new("the limit", &limit, "/payments", Keys::Fresh),
            Contender::new("idem, fresh", &idem, "/payments", Keys::Fresh),
            Contender::new(
                "idem's messages by hand",
                &by_hand,
                "/payments",
                Keys::Fresh,
            ),
            Contender::new("idem, replay", &idem, "/payments", Keys::Replay),
            Contender::new("idem, leased, empty", &idem, "/leased", Keys::Fresh),
            Contender::new("zero2prod, fresh", &zero2prod, "/payments", Keys::Fresh),
            Contender::new("zero2prod, replay", &zero2prod, "/payments", Keys::Replay),
        ];
        let mut usual = vec![
            Contender::new("the limit", &limit, "/transfers", Keys::Fresh),
            Contender::new("idem, fresh", &idem, "/transfers", Keys::Fresh),
            Contender::new("zero2prod, fresh", &zero2prod, "/transfers", Keys::Fresh),
        ];
        for (variant, server) in &others {
            let fresh = format!("{variant}, fresh");
            contenders.push(Contender::new(&fresh, server, "/payments", Keys::Fresh));
            usual.push(Contender::new(&fresh, server, "/transfers", Keys::Fresh));
            if *variant != "axum-sqlx-tx" {
                let replay = format!("{variant}, replay");
                contenders.push(Contender::new(&replay, server, "/payments", Keys::Replay));
            }
        }
        alternate(&mut contenders, connections, effort).await?;
        report::compare(
            &format!("{title}, one statement, {connections} connections"),
            &contenders,
        );
        alternate(&mut usual, connections, effort).await?;
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
    let beside = |name: &str, path: &str| {
        let mut contender = Contender::new(name, &idem, "/payments", Keys::Fresh);
        contender.plan.storm = Some(Storm {
            path: path.to_owned(),
            clients: 64,
            pause_ms: 50,
        });
        contender
    };
    let mut contenders = [
        Contender::new("alone", &idem, "/payments", Keys::Fresh),
        beside("64 clients repeat one key", "/slow"),
        beside("64 clients are refused without idem", "/refusing"),
    ];
    let effort = Effort {
        rounds: effort.rounds * 2,
        seconds: effort.seconds * 2.0,
    };
    alternate(&mut contenders, 1, effort).await?;
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
                format!("{:.0}", contender.median(|seen| seen.p50_us)),
                format!("{:.0}", contender.median(|seen| seen.p99_us)),
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
        let mut contenders = [
            Contender::new("before", &before, path, keys),
            Contender::new("after", &after, path, keys),
        ];
        alternate(&mut contenders, 16, effort).await?;
        report::compare(&format!("A change, {what}"), &contenders);
    }
    Ok(())
}
