//! A PostgreSQL cluster that is thrown away.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use uuid::Uuid;

use crate::Failure;
use crate::payments::TABLES;

#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    bin: PathBuf,
    port: u16,
}

impl Cluster {
    /// Makes a cluster and starts it.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub fn start(fsync: bool) -> Result<Self, Failure> {
        let bin = find()?;
        let folder = tempfile::Builder::new().prefix("idem-bench-").tempdir()?;
        unprivileged(
            "chown",
            &["-R", user(), &folder.path().to_string_lossy()],
            true,
        )?;
        let data = folder.path().join("data").to_string_lossy().into_owned();
        let initdb = bin.join("initdb").to_string_lossy().into_owned();
        unprivileged(
            &initdb,
            &[
                "-D",
                &data,
                "-U",
                "idem",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ],
            false,
        )?;
        let pg_ctl = bin.join("pg_ctl").to_string_lossy().into_owned();
        for _ in 0..10 {
            let port = 20_000 + (Uuid::new_v4().as_u128() % 20_000) as u16;
            // Loopback only. A checkpoint in the middle of a round would fall upon one server.
            let options = format!(
                "-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={} \
                 -c fsync={} -c synchronous_commit=on -c max_connections=200 \
                 -c shared_buffers=1GB -c max_wal_size=16GB -c checkpoint_timeout=1h \
                 -c shared_preload_libraries=pg_stat_statements \
                 -c pg_stat_statements.track=none",
                folder.path().display(),
                if fsync { "on" } else { "off" },
            );
            let log = folder.path().join("log").to_string_lossy().into_owned();
            if unprivileged(
                &pg_ctl,
                &["start", "-w", "-s", "-D", &data, "-l", &log, "-o", &options],
                false,
            )
            .is_ok()
            {
                return Ok(Self { folder, bin, port });
            }
        }
        Err("PostgreSQL does not start".into())
    }

    /// Creates a database with the application's tables.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub async fn database(&self) -> Result<String, Failure> {
        let name = format!("bench_{}", Uuid::new_v4().simple());
        let mut conn = PgConnection::connect(&self.url("postgres")).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("create database {name}")))
            .execute(&mut conn)
            .await?;
        let url = self.url(&name);
        let mut conn = PgConnection::connect(&url).await?;
        sqlx::raw_sql(TABLES).execute(&mut conn).await?;
        sqlx::raw_sql("create extension pg_stat_statements")
            .execute(&mut conn)
            .await?;
        Ok(url)
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://idem@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self
            .folder
            .path()
            .join("data")
            .to_string_lossy()
            .into_owned();
        let pg_ctl = self.bin.join("pg_ctl").to_string_lossy().into_owned();
        unprivileged(
            &pg_ctl,
            &["stop", "-s", "-m", "immediate", "-D", &data],
            false,
        )
        .ok();
    }
}

/// Debian keeps the server's programs out of `PATH`.
fn find() -> Result<PathBuf, Failure> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| {
            versions
                .flatten()
                .map(|version| version.path().join("bin"))
                .collect()
        })
        .unwrap_or_default();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path));
    found
        .into_iter()
        .rev()
        .find(|folder| folder.join("initdb").exists())
        .ok_or_else(|| "PostgreSQL's server is not installed".into())
}

fn is_root() -> bool {
    std::env::var("USER").is_ok_and(|user| user == "root")
        || std::fs::metadata("/proc/self")
            .is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

fn user() -> &'static str {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    if users.lines().any(|line| line.starts_with("postgres:")) {
        "postgres"
    } else {
        "nobody"
    }
}

/// PostgreSQL refuses to run as root. `as_root`: only root has to do it, and as itself.
fn unprivileged(program: &str, arguments: &[&str], as_root: bool) -> Result<(), Failure> {
    let mut command = match (is_root(), as_root) {
        (false, true) => return Ok(()),
        (true, false) => {
            let mut command = Command::new("runuser");
            command.args(["-u", user(), "--", program]);
            command
        }
        _ => Command::new(program),
    };
    let status = command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} failed: {status}").into())
    }
}
