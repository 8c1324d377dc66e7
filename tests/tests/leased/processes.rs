//! Orders in several processes, with a provider in another one.

use std::path::Path;
use std::time::{Duration, Instant};

use idem_tests::Answer;
use idem_tests::client::{Pending, Request};
use idem_tests::database::TestDatabase;
use idem_tests::leased::Psp;
use idem_tests::process::{Door, ServerProcess};
use serde_json::{Value, json};

/// The lease of all these processes.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// Within which a retry is answered after its owner's death.
const TAKE_OVER: Duration = Duration::from_secs(2);

/// Starts a server of orders.
pub(crate) async fn serve(
    database: &TestDatabase,
    psp: &Psp,
    more: &[(&str, &str)],
) -> ServerProcess {
    let program = Path::new(env!("CARGO_BIN_EXE_idem-order-server"));
    let lease = LEASE.as_millis().to_string();
    let own = [
        ("DATABASE_URL", database.url()),
        ("PSP_URL", psp.url()),
        ("LEASE_MS", &lease),
    ];
    let environment = [&own, more].concat();
    ServerProcess::start(program, Path::new("."), &environment).await
}

/// Begins an order whose key is the name of the point where it will be stopped.
pub(crate) fn order(server: &ServerProcess, point: &str) -> Request {
    let request = server.post("/orders").key(point).account(point);
    request.json(json!({ "card": "card_ok" }).to_string())
}

/// Begins an order, which stops at the point.
pub(crate) async fn stop_at(server: &ServerProcess, point: &'static str) -> Pending {
    let others = server.get(&format!("/control/{point}/arrived")).await;
    server.close(Door::Point(point)).await;
    let running = order(server, point).start();
    let place = others.json::<usize>() + 1;
    server.until_arrived(Door::Point(point), place).await;
    running
}

/// Retries until the order is there; whatever else comes in between says that it is worth it.
pub(crate) async fn retry(server: &ServerProcess, point: &str) -> Answer {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let answer = order(server, point).await;
        if answer.status == 201 {
            return answer;
        }
        assert!(matches!(answer.status, 409 | 503), "{point}: {answer:?}");
        assert!(
            Instant::now() < deadline,
            "{point}: in vain, at last {answer:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Retries, and asserts that the take-over was as quick as the lease allows.
pub(crate) async fn retry_in_time(server: &ServerProcess, point: &str) -> Answer {
    let death = Instant::now();
    let answer = retry(server, point).await;
    let took = death.elapsed();
    assert!(
        took <= TAKE_OVER,
        "{point}: the retry was answered after {took:?}"
    );
    answer
}

/// Asserts that the order of this point happened once, here and at the provider.
pub(crate) async fn assert_once(database: &TestDatabase, psp: &Psp, answer: &Answer, point: &str) {
    for label in ["reserve", "confirm"] {
        let sql =
            format!("select count(*) from effects where account = '{point}' and label = '{label}'");
        assert_eq!(database.pool().number(&sql).await, 1, "{point}: {label}");
    }
    let charge = answer.json::<Value>()["charge"].clone();
    let charges = psp.charges().await;
    let key = charges
        .iter()
        .find(|listed| listed["id"] == charge)
        .unwrap_or_else(|| panic!("{point}: no charge {charge} in {charges:?}"))["idempotency_key"]
        .clone();
    let same = charges
        .iter()
        .filter(|listed| listed["idempotency_key"] == key);
    assert_eq!(same.count(), 1, "{point}: {charges:?}");
}

/// Asserts that the provider has charged this often.
pub(crate) async fn assert_charges(psp: &Psp, count: usize) {
    let charges = psp.charges().await;
    assert_eq!(charges.len(), count, "{charges:?}");
}
