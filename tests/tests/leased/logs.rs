//! What the log of leased mode never says.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use idem_tests::Kind;
use idem_tests::leased::AnyLease;
use idem_tests::log::Log;

use crate::{Two, end_leases};

/// Every secret has this in it, and nothing else has.
const MARK: &str = "hush";
const KEY: &str = "key-hush";

async fn answers(lease: AnyLease<'_>) -> Response {
    let result = async || Ok::<_, StatusCode>("result-hush".to_owned());
    let result = lease.step("charge", result).await.expect("a result");
    (StatusCode::CREATED, [("x-answer", "header-hush")], result).into_response()
}

async fn fails(lease: AnyLease<'_>) -> Response {
    let result = async || Err::<String, _>("error-hush");
    let failed = lease.step("charge", result).await.expect_err("an error");
    (StatusCode::SERVICE_UNAVAILABLE, format!("{failed:?}")).into_response()
}

fn panics() -> Response {
    panic!("panic-{MARK}")
}

/// Goes through every outcome of a lease with secrets in every place that a client or a handler fills.
async fn every_outcome(two: &Two, kind: Kind) {
    let Two { first, second, .. } = two;
    let account = "tenant-hush";
    let order = |n: u32, card| {
        first
            .order_with(&format!("{KEY}-{n}"), card)
            .account(account)
    };
    let retry = |n: u32| {
        second
            .order_with(&format!("{KEY}-{n}"), "card-hush")
            .account(account)
    };
    for app in [first, second] {
        app.handler(|lease| answers(lease).boxed());
    }
    let answer = order(1, "card-hush").await;
    assert_eq!(answer.status, 201);
    retry(1).await.assert_replays(&answer);
    assert_eq!(order(1, "another-hush").await.status, 422);

    first.handler(|lease| fails(lease).boxed());
    assert_eq!(order(2, "card-hush").await.status, 503);
    assert_eq!(retry(2).await.status, 201);
    first.handler(|_| async { panics() }.boxed());
    assert_eq!(order(3, "card-hush").await.status, 500);
    assert_eq!(retry(3).await.status, 201);

    // In flight, lost to another owner, and parked.
    let run = first.order.clone();
    first.handler(move |lease| {
        let run = run.clone();
        async move { run.run(lease, "card-hush").await }.boxed()
    });
    let lost = two.abandon(kind, order(4, "card-hush"), "charging").await;
    assert_eq!(retry(4).await.status, 201);
    first.order.gates.at("charging").open();
    assert_eq!(lost.answer().await.status, 201);
    let parked = two.abandon(kind, first.reconciled(KEY), "charging").await;
    assert_eq!(second.reconciled(KEY).await.status, 409);
    second
        .complete(KEY, "body-hush")
        .await
        .expect("an operator's word");
    first.order.gates.at("charging").open();
    let _ = parked.answer().await;

    // Taken away under the handler, and a row that is none.
    first.order.gates.at("claimed").close();
    let arrived = first.order.gates.at("claimed").arrived();
    let running = order(5, "card-hush").start();
    first
        .order
        .gates
        .at("claimed")
        .until_arrived(arrived + 1)
        .await;
    end_leases(&two.database, kind).await;
    let rename = "alter table idempotency_keys rename to elsewhere";
    two.database.pool().execute(rename).await;
    first.order.gates.at("claimed").open();
    assert_eq!(running.answer().await.status, 503);
    assert_eq!(order(6, "card-hush").await.status, 503);
}

async fn assert_silent(kind: Kind) {
    let (log, _guard) = Log::capture();
    every_outcome(&Two::start(kind).await, kind).await;
    log.assert_without(MARK);
    let settled = [
        "an operator settled a key",
        "olga",
        "the provider's list says so",
        "completed",
        "key_hash=",
    ];
    log.assert_line(&settled);
}

#[tokio::test]
#[cfg_attr(
    not(feature = "postgres-server"),
    ignore = "needs PostgreSQL: run scripts/test"
)]
async fn no_key_tenant_result_or_body_of_a_lease_is_logged_on_postgres() {
    assert_silent(Kind::Postgres).await;
}

#[tokio::test]
async fn no_key_tenant_result_or_body_of_a_lease_is_logged_on_sqlite() {
    assert_silent(Kind::Sqlite).await;
}
