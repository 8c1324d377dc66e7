//! What the library promises when there are several processes, and when they die.

mod crashes;
mod disk;
mod duplicates;
mod pool;
mod postgres;
mod sqlite;

use std::path::Path;

use idem_tests::process::ServerProcess;

/// The test application as a program.
const SERVER: &str = env!("CARGO_BIN_EXE_idem-test-server");

/// Starts the test application in a process of its own.
async fn serve(database_url: &str) -> ServerProcess {
    let environment = [("DATABASE_URL", database_url)];
    ServerProcess::start(Path::new(SERVER), Path::new("."), &environment).await
}
