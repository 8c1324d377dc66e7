//! A PostgreSQL cluster of a test's own, which can crash, or have a full disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tempfile::TempDir;

/// A cluster that keeps what it has committed, on a free port of the loopback interface; ends with
/// this value.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    options: &'static str,
    /// The most that it may write into one file, if there is a limit.
    room: Option<u64>,
}

/// Nothing may happen to the rows of the dead until a test wants it, and a segment of the
/// write-ahead log has room.
const SMALL: &str = "-c autovacuum=off -c fsync=off";

/// Far above every catalogue. No multiple of the size of a page: the last page is then written by
/// half, which PostgreSQL takes for a disk that is full (53100), as it is then.
const ROOM: u64 = 4 * 1024 * 1024 + 4096;

impl Cluster {
    /// Starts one, which writes to the disk before it says that it has.
    ///
    /// # Panics
    /// When `IDEM_TEST_POSTGRES_BIN` does not say where the programs are, or when it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[], "", None)
    }

    /// Starts one whose tables find the disk full at some four megabytes each, by a limit of the
    /// system's (`RLIMIT_FSIZE`): a file system of its own would have to be mounted, which a
    /// container may not.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_on_a_small_disk() -> Self {
        Self::start_with(&["--wal-segsize=1"], SMALL, Some(ROOM))
    }

    fn start_with(initdb: &[&str], options: &'static str, room: Option<u64>) -> Self {
        let programs = env::var_os("IDEM_TEST_POSTGRES_BIN");
        let programs = programs.expect("IDEM_TEST_POSTGRES_BIN is not set: run scripts/test");
        let mut cluster = Self {
            folder: TempDir::new().expect("a folder"),
            programs: programs.into(),
            port: 0,
            options,
            room,
        };
        if is_root() {
            run(Command::new("chown")
                .arg("nobody")
                .arg(cluster.folder.path()));
        }
        let mut command = cluster.program("initdb");
        command.args([
            "--username=idem",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
        ]);
        run(command.args(initdb));
        // Nobody hands out a free port for later, so a taken one is found by trying.
        for _ in 0..10 {
            cluster.port = crate::free_port();
            if cluster.try_start() {
                return cluster;
            }
        }
        panic!("no cluster starts");
    }

    /// Where to connect.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://idem@127.0.0.1:{}/postgres", self.port)
    }

    /// Kills the server, as `kill -9` does, and starts it again.
    ///
    /// # Panics
    /// When it does not come back.
    pub fn crash(&self) {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).expect("it runs");
        let process = file.lines().next().expect("its process");
        run(Command::new("kill").args(["-9", process]));
        // Its children notice a moment later; until then it does not start.
        let deadline = Instant::now() + Duration::from_mins(1);
        while !self.try_start() {
            assert!(Instant::now() < deadline, "the server does not come back");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn try_start(&self) -> bool {
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories='' {}",
            self.port, self.options
        );
        let mut start = self.program("pg_ctl");
        start.args(["start", "--wait", "--silent", "--options", &options]);
        let log = self.folder.path().join("log");
        start.arg("--log").arg(log);
        start.status().expect("pg_ctl runs").success()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// PostgreSQL refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if is_root() {
            words.extend(["runuser", "-u", "nobody", "--"].map(OsString::from));
        }
        if let Some(room) = self.room.filter(|_| name == "pg_ctl") {
            words.extend(["prlimit".into(), format!("--fsize={room}").into()]);
        }
        words.push(self.programs.join(name).into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.arg("--pgdata").arg(self.data());
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        let _ = stop.args(["stop", "--mode=immediate", "--silent"]).status();
    }
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;

    Path::new("/proc/self")
        .metadata()
        .is_ok_and(|own| own.uid() == 0)
}

fn run(command: &mut Command) {
    let status = command.status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
}
