//! Instructions of one request, which no neighbour on the machine changes.
//!
//! SQLite's statements run on a thread of sqlx's, and callgrind counts each thread for itself: the
//! first one is axum, the engine, and sqlx's side towards us, without the database.

use std::process::{Command, Stdio};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt;

use crate::{Failure, report, sqlite};

/// Serves requests without a socket; runs under callgrind.
///
/// # Errors
/// When an answer is not the expected one.
pub async fn work(what: &str, requests: usize) -> Result<(), Failure> {
    let pool = sqlite::pool("sqlite::memory:", 1).await?;
    let app = match what {
        "limit" => sqlite::limit(pool),
        _ => sqlite::with_idem(pool).await?,
    };
    for number in 0..requests {
        let key = if what == "replay" { 0 } else { number };
        post(&app, key).await?;
    }
    Ok(())
}

async fn post(app: &Router, key: usize) -> Result<(), Failure> {
    let request = Request::post("/payments")
        .header("content-type", "application/json")
        .header("x-account", "1")
        .header(
            "idempotency-key",
            format!("8e03978e-40d5-43e8-bc93-{key:012}"),
        )
        .body(Body::from(
            r#"{"amount": 1250, "currency": "EUR", "source": "card_ok"}"#,
        ))?;
    let response = app.clone().oneshot(request).await?;
    if response.status().as_u16() != 201 {
        return Err(format!("answered {}", response.status()).into());
    }
    Ok(())
}

/// Prints the table.
///
/// # Errors
/// When valgrind is not installed.
pub fn count() -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut limit = 0.0;
    for (what, name) in [
        ("limit", "the limit"),
        ("fresh", "idem, fresh"),
        ("replay", "idem, replay"),
    ] {
        // The difference of two runs is without the start.
        let (few, many) = (total(what, 200)?, total(what, 1200)?);
        let each = (many - few) as f64 / 1000.0;
        if what == "limit" {
            limit = each;
        }
        rows.push(vec![
            name.to_owned(),
            format!("{each:.0}"),
            format!("{:.0}", each - limit),
        ]);
    }
    report::table(
        "Instructions of one request, without socket and database",
        &["", "instructions", "beyond the limit"],
        &rows,
    );
    Ok(())
}

fn total(what: &str, requests: usize) -> Result<u64, Failure> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--separate-threads=yes", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["instructions", what, &requests.to_string()])
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        return Err("callgrind failed".into());
    }
    let first = std::fs::read_to_string(format!("{}-01", out.display()))?;
    let total = first.lines().find_map(|line| {
        line.strip_prefix("totals: ")
            .or(line.strip_prefix("summary: "))
    });
    Ok(total.ok_or("callgrind counted nothing")?.trim().parse()?)
}
