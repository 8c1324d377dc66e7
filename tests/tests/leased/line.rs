//! An application whose connections break, or are held, where a test says.

use std::time::Duration;

use idem_tests::Kind;
use idem_tests::database::TestDatabase;
use idem_tests::leased::{LeasedApp, LeasedSetup, Order};
use idem_tests::proxy::Proxy;

pub(crate) struct Line {
    pub(crate) app: LeasedApp,
    pub(crate) proxy: Proxy,
    // The last field: the application goes before its database.
    pub(crate) database: TestDatabase,
}

impl Line {
    pub(crate) async fn start(kind: Kind, lease: Duration) -> Self {
        let database = TestDatabase::create(kind).await;
        let proxy = database.proxy().await;
        let pool = database
            .connect_through(&proxy, 5, Duration::from_secs(10))
            .await;
        let setup = LeasedSetup {
            lease,
            ..LeasedSetup::default()
        };
        let app = LeasedApp::on(&pool, setup, Order::default()).await;
        Self {
            app,
            proxy,
            database,
        }
    }
}
