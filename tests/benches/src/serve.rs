//! A server process: one application on one port, until its standard input ends.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::Failure;

/// How a server reaches its database.
#[derive(Clone, Debug)]
pub struct Database {
    pub url: String,
    pub connections: u32,
    /// Whether the pool asks a connection for a sign of life before it lends it, which is sqlx's
    /// default and costs a round trip.
    pub ping: bool,
}

/// Connects as an application would.
///
/// # Errors
/// When the database does not answer.
pub async fn pool(database: &Database) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new()
        .max_connections(database.connections)
        .min_connections(database.connections)
        .test_before_acquire(database.ping)
        .acquire_timeout(Duration::from_secs(10))
        .connect(&database.url)
        .await
}

/// Serves until the parent is gone, and says on standard output on which port.
///
/// # Errors
/// When there is no port.
pub async fn serve(app: Router) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    let gone = async {
        let mut nothing = Vec::new();
        tokio::io::stdin().read_to_end(&mut nothing).await.ok();
    };
    axum::serve(listener, app)
        .with_graceful_shutdown(gone)
        .await?;
    Ok(())
}

/// A server that was started for a measurement; ends with this value.
#[derive(Debug)]
pub struct Server {
    pub port: u16,
    /// How its connections reach the database, under a name of their own.
    pub url: String,
    process: Child,
}

impl Server {
    /// Starts `program serve <variant>` and waits for its port.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start(program: &str, variant: &str, database: &Database) -> Result<Self, Failure> {
        let url = if database.url.starts_with("postgres:") {
            format!("{}?application_name={variant}", database.url)
        } else {
            database.url.clone()
        };
        let mut process = Command::new(program)
            .args(["serve", variant, &url])
            .args([database.connections.to_string(), database.ping.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = process.stdout.take().ok_or("the server has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let port = line
            .trim()
            .parse()
            .map_err(|_| format!("{variant} did not start"))?;
        Ok(Self { port, url, process })
    }

    /// The process.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }
}
