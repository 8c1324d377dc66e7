//! What leased mode promises, on every database and over several processes.

#[macro_use]
mod stamp;

mod clock;
mod connection;
mod contract;
mod crashes;
mod line;
mod logs;
mod memory;
mod operators;
mod outages;
mod processes;
mod questions;
mod races;
mod retention;
mod steps;
mod takeover;

use std::time::Duration;

use idem_tests::Kind;
use idem_tests::client::{Pending, Request};
use idem_tests::database::TestDatabase;
use idem_tests::leased::{LeasedApp, LeasedSetup};

/// Two applications with handles of their own on one database, as two processes have them.
struct Two {
    first: LeasedApp,
    second: LeasedApp,
    // The last field: the applications go before their database.
    database: TestDatabase,
}

impl Two {
    async fn start(kind: Kind) -> Self {
        Self::with(kind, LeasedSetup::default()).await
    }

    async fn with(kind: Kind, setup: LeasedSetup) -> Self {
        let database = TestDatabase::create(kind).await;
        Self {
            first: LeasedApp::with(&database, setup).await,
            second: LeasedApp::with(&database, setup).await,
            database,
        }
    }

    /// Begins an order at the first application, which stops at the point, and ends its lease.
    async fn abandon(&self, kind: Kind, order: Request, point: &str) -> Pending {
        let gate = self.first.order.gates.at(point);
        let others = gate.arrived();
        gate.close();
        let slow = order.start();
        gate.until_arrived(others + 1).await;
        end_leases(&self.database, kind).await;
        slow
    }

    /// Begins an order at the second application, which stops at the point.
    async fn run_to(&self, order: Request, point: &str) -> Pending {
        let gate = self.second.order.gates.at(point);
        let others = gate.arrived();
        gate.close();
        let running = order.start();
        gate.until_arrived(others + 1).await;
        running
    }

    /// Counts the effects since a moment ago.
    async fn effects_since(&self, before: i64) -> i64 {
        self.database.effects().await - before
    }
}

/// Ends every lease, as when its time has passed on the database's clock.
async fn end_leases(database: &TestDatabase, kind: Kind) {
    let earlier = earlier(kind);
    let sql = format!(
        "update idempotency_keys set locked_until = {earlier} where locked_until is not null"
    );
    database.pool().execute(&sql).await;
}

/// Makes every key expire, as when its ttl has passed on the database's clock.
async fn end_retention(database: &TestDatabase, kind: Kind) {
    let sql = format!("update idempotency_keys set expires_at = {}", earlier(kind));
    database.pool().execute(&sql).await;
}

fn earlier(kind: Kind) -> &'static str {
    if kind.is_sqlite() {
        "1"
    } else {
        "now() - interval '1 second'"
    }
}

/// Counts the recorded and begun steps of all keys.
async fn steps(database: &TestDatabase) -> i64 {
    let sql = "select count(*) from idempotency_steps";
    database.pool().number(sql).await
}

/// Asks until the answer is there, for a minute at most.
async fn until<F: Future<Output = bool>>(what: &str, mut is: impl FnMut() -> F) {
    let asked = async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let came = tokio::time::timeout(Duration::from_mins(1), asked).await;
    assert!(came.is_ok(), "waited in vain until {what}");
}
