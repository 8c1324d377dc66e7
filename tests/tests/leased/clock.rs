//! Processes whose clock is wrong by a day: only the database's clock decides.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use idem_tests::Kind;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{LeasedApp, Psp};
use idem_tests::process::{Door, ServerProcess};
use serde_json::Value;

use crate::processes::{LEASE, assert_charges, assert_once, order, retry_in_time, serve, stop_at};

const DAY: u64 = 24 * 60 * 60;

/// Starts a server whose clock is a day off, and makes sure that it is.
async fn serve_on_another_day(database: &TestDatabase, psp: &Psp, offset: &str) -> ServerProcess {
    let library = faketime().display().to_string();
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME", offset),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let server = serve(database, psp, &environment).await;
    let theirs: u64 = server.get("/clock").await.json();
    let ours = SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("a time after 1970")
        .as_secs();
    let off = theirs.abs_diff(ours);
    assert!(off.abs_diff(DAY) < 60, "the clock is {off} s off");
    server
}

/// Where Debian's package `faketime` keeps its library.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("/usr/lib");
    folders
        .filter_map(Result::ok)
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())
        .expect("faketime is needed: run scripts/test, which installs it")
}

async fn assert_the_clock_of_a_process_does_not_matter(kind: Kind, offset: &str) {
    let database = TestDatabase::create(kind).await;
    let psp = Psp::start().await;
    let operator = LeasedApp::start(&database).await;
    let shifted = serve_on_another_day(&database, &psp, offset).await;
    let straight = serve(&database, &psp, &[]).await;

    // Neither takes over from the other while that one renews its lease.
    for (owner, other, point) in [
        (&straight, &shifted, "charging"),
        (&shifted, &straight, "charged"),
    ] {
        let running = stop_at(owner, point).await;
        let begun = Instant::now();
        while begun.elapsed() < 2 * LEASE {
            order(other, point).await.assert_refused(409, "in-progress");
            tokio::time::sleep(LEASE / 10).await;
        }
        owner.open(Door::Point(point)).await;
        let answer = running.answer().await;
        assert_eq!(answer.json::<Value>()["attempt"], 1, "{offset}");
        assert_once(&database, &psp, &answer, point).await;
        let key = operator.find_of(point, point).await;
        let kept = key
            .expires_at
            .duration_since(key.completed_at.expect("an end"));
        // The statement reads the clock twice.
        let beyond = kept.expect("a ttl").checked_sub(Duration::from_hours(1));
        assert!(
            beyond.is_some_and(|beyond| beyond < Duration::from_secs(1)),
            "{offset}: {key:?}"
        );
    }

    // The shifted one takes over as soon as the lease is over, and so is taken over.
    let doomed = serve(&database, &psp, &[]).await;
    let _lost = stop_at(&doomed, "reserved").await;
    doomed.kill().await;
    let answer = retry_in_time(&shifted, "reserved").await;
    assert_eq!(answer.json::<Value>()["attempt"], 2, "{offset}");
    assert_once(&database, &psp, &answer, "reserved").await;
    let _lost = stop_at(&shifted, "recorded").await;
    shifted.kill().await;
    let answer = retry_in_time(&straight, "recorded").await;
    assert_eq!(answer.json::<Value>()["attempt"], 2, "{offset}");
    assert_once(&database, &psp, &answer, "recorded").await;
    assert_charges(&psp, 4).await;
}

async fn a_process_a_day_ahead_takes_nothing_over_early(kind: Kind) {
    assert_the_clock_of_a_process_does_not_matter(kind, "+1d").await;
}

async fn a_process_a_day_behind_takes_over_in_time(kind: Kind) {
    assert_the_clock_of_a_process_does_not_matter(kind, "-1d").await;
}

stamp!(
    postgres: a_process_a_day_ahead_takes_nothing_over_early,
    a_process_a_day_behind_takes_over_in_time,
);
