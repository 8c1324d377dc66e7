//! `run [--quick]` prints the tables; the other commands are the processes that it starts.

use std::process::ExitCode;

use idem_bench::cluster::Cluster;
use idem_bench::rounds::Effort;
use idem_bench::serve::{Database, pool, serve};
use idem_bench::{
    Failure, by_hand, fingerprint, growth, hand_written, instructions, load, messages, postgres,
    sqlite, statements, sweep, with_idem,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match command(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn command(arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        ["serve", variant, url, connections, ping] => {
            let database = Database {
                url: (*url).to_owned(),
                connections: connections.parse()?,
                ping: ping.parse()?,
            };
            threads(true)?.block_on(async {
                if let Some(variant) = variant.strip_prefix("sqlite-") {
                    let pool = sqlite::pool(&database.url, database.connections).await?;
                    return serve(match variant {
                        "limit" => sqlite::limit(pool),
                        _ => sqlite::with_idem(pool).await?,
                    })
                    .await;
                }
                let pool = pool(&database).await?;
                serve(match *variant {
                    "limit" => hand_written::limit(pool),
                    "zero2prod" => hand_written::zero2prod(pool),
                    "idem" => with_idem::app(pool).await?,
                    "by-hand" => by_hand::app(pool).await?,
                    "messages" => messages::app(pool).await?,
                    other => return Err(format!("no such application: {other}").into()),
                })
                .await
            })
        }
        ["load", plan] => {
            let plan = serde_json::from_str(plan)?;
            let seen = threads(false)?.block_on(load::generate(plan))?;
            println!("{}", serde_json::to_string(&seen)?);
            Ok(())
        }
        ["storm", plan] => {
            let plan = serde_json::from_str(plan)?;
            let seen = threads(false)?.block_on(load::storm(plan))?;
            println!("{}", serde_json::to_string(&seen)?);
            Ok(())
        }
        ["instructions", what, requests] => {
            threads(false)?.block_on(instructions::work(what, requests.parse()?))
        }
        ["run", options @ ..] => threads(false)?.block_on(run(options)),
        _ => Err("usage: idem-bench run [--quick] [--peers PROGRAM] [TABLE…]".into()),
    }
}

fn threads(many: bool) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = if many {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    Ok(builder.enable_all().build()?)
}

async fn run(options: &[&str]) -> Result<(), Failure> {
    let quick = options.contains(&"--quick");
    let option = |name| {
        let at = options.iter().position(|option| *option == name)?;
        options.get(at + 1).copied()
    };
    let peers = option("--peers");
    let tables: Vec<&str> = options
        .iter()
        .copied()
        .filter(|name| !name.starts_with('-') && !name.contains('/'))
        .collect();
    let wanted = |table: &str| tables.is_empty() || tables.contains(&table);
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let effort = if quick {
        Effort {
            rounds: 3,
            seconds: 0.6,
        }
    } else {
        Effort {
            rounds: 5,
            seconds: 0.8,
        }
    };
    let connections: &[usize] = if quick { &[16] } else { &[1, 16, 64] };

    if let Some(before) = option("--before") {
        let cluster = Cluster::start(tables.contains(&"fsync"))?;
        return postgres::before_and_after(before, &program, &cluster, effort).await;
    }
    for (table, fsync, name) in [
        ("fsync", true, "fsync on"),
        ("no-fsync", false, "fsync off"),
    ] {
        if wanted(table) {
            let cluster = Cluster::start(fsync)?;
            let title = format!("PostgreSQL, {name}");
            let program = &program;
            postgres::throughput(program, peers, &cluster, &title, true, connections, effort)
                .await?;
        }
    }
    if tables.contains(&"no-ping") {
        let cluster = Cluster::start(true)?;
        let title = "PostgreSQL, fsync on, no ping";
        postgres::throughput(&program, None, &cluster, title, false, &[16], effort).await?;
    }
    if wanted("outbox") {
        let cluster = Cluster::start(true)?;
        messages::throughput(&program, &cluster, effort).await?;
    }
    if wanted("round-trips") {
        let cluster = Cluster::start(false)?;
        statements::of_a_request(&program, &cluster).await?;
    }
    if wanted("hot-key") {
        let cluster = Cluster::start(false)?;
        postgres::hot_key(&program, &cluster, effort).await?;
    }
    if wanted("sqlite") {
        sqlite::throughput(&program, connections, effort).await?;
    }
    if wanted("fingerprint") {
        fingerprint::throughput(effort.rounds)?;
    }
    if wanted("instructions") {
        instructions::count()?;
    }
    if wanted("sweep") {
        let cluster = Cluster::start(false)?;
        sweep::rate(
            &program,
            &cluster,
            if quick { 200_000 } else { 500_000 },
            effort.rounds.min(5),
        )
        .await?;
    }
    if wanted("growth") {
        let cluster = Cluster::start(false)?;
        let sizes: &[u64] = if quick {
            &[10_000, 1_000_000]
        } else {
            &[10_000, 1_000_000, 10_000_000]
        };
        growth::latency(&program, &cluster, sizes, effort).await?;
    }
    Ok(())
}
