//! The payment provider of the example of orders, in a process of its own.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::process::{ServerProcess, build};

/// The provider's program, built once.
async fn program() -> &'static Path {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_init(|| build("example-orders", "psp")).await
}

/// A provider with its own data, which survives its process.
#[derive(Debug)]
pub struct Psp {
    folder: TempDir,
    process: Option<ServerProcess>,
    url: String,
}

impl Psp {
    /// Starts a provider that has charged nothing yet.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start() -> Self {
        let folder = TempDir::new().expect("a folder");
        let process = Self::launch(&folder, "127.0.0.1:0").await;
        let url = process.url().to_owned();
        Self {
            folder,
            process: Some(process),
            url,
        }
    }

    async fn launch(folder: &TempDir, listen: &str) -> ServerProcess {
        let environment = [("LISTEN", listen), ("DATABASE_URL", "sqlite:psp.db")];
        ServerProcess::start(program().await, folder.path(), &environment).await
    }

    /// Returns where it listens, now and after another start.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills its process, as `kill -9` does.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn kill(&mut self) {
        self.process.take().expect("a provider").kill().await;
    }

    /// Starts it again on the same address.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_again(&mut self) {
        let listen = self.url.trim_start_matches("http://");
        self.process = Some(Self::launch(&self.folder, listen).await);
    }

    /// Returns what it has charged.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn charges(&self) -> Vec<Value> {
        let process = self.process.as_ref().expect("a provider");
        process.get("/charges").await.json()
    }
}
