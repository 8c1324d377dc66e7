//! What the library promises when something breaks: one test for each row of the fault matrix in
//! `RELIABILITY.md` that no other suite covers.

#[macro_use]
#[path = "../contract/stamp.rs"]
mod stamp;

mod connection;
mod pgbouncer;
mod round_trips;
mod transaction;

use std::time::Duration;

use idem_tests::proxy::Proxy;
use idem_tests::{Kind, Setup, TestApp};

/// An application of one connection, behind a proxy.
async fn behind_a_proxy(kind: Kind) -> TestApp {
    let setup = Setup {
        proxy: true,
        pool_size: 1,
        acquire_timeout: Duration::from_secs(5),
        ..Setup::default()
    };
    TestApp::with(kind, setup).await
}

/// The proxy in front of the application's database.
fn proxy(app: &TestApp) -> &Proxy {
    app.proxy.as_ref().expect("a proxy")
}
