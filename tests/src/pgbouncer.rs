//! PgBouncer between an application and its database.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::cluster::is_root;
use crate::free_port;

/// A pooler of its own, with fewer sessions than the application has connections; ends with this
/// value.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    _child: Child,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts one in front of this server.
    ///
    /// # Panics
    /// When it does not start.
    pub(crate) async fn start(server: &PgConnectOptions, mode: &str) -> Self {
        // Nobody hands out a free port for later, so a taken one is found by trying.
        for _ in 0..10 {
            if let Some(started) = Self::try_start(server, mode).await {
                return started;
            }
        }
        panic!("pgbouncer does not start");
    }

    async fn try_start(server: &PgConnectOptions, mode: &str) -> Option<Self> {
        let folder = TempDir::new().expect("a folder");
        let port = free_port();
        let users = folder.path().join("users.txt");
        let url = server.to_url_lossy();
        let password = url.password().unwrap_or_default();
        let user = server.get_username();
        fs::write(&users, format!("\"{user}\" \"{password}\"\n")).expect("a file");
        let settings = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
             pool_mode = {mode}\ndefault_pool_size = 3\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.get_host(),
            server.get_port(),
            users.display(),
        );
        fs::write(&settings, text).expect("a file");
        // It refuses to be root, and reads its files as whom it becomes.
        for (path, mode) in [(folder.path(), 0o755), (&users, 0o644), (&settings, 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours to set");
        }
        let mut command = Command::new("pgbouncer");
        if is_root() {
            command.args(["-u", "nobody"]);
        }
        let mut child = command
            .arg(&settings)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("pgbouncer is installed");
        let mut log = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        while let Ok(Some(line)) = log.next_line().await {
            if line.contains("process up") {
                // It goes on writing, and a full pipe would hold it up.
                tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
                return Some(Self {
                    port,
                    _child: child,
                    _folder: folder,
                });
            }
        }
        None
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}
