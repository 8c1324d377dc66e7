//! Servers in processes of their own, which a test can kill.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use axum::http::Method;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::client::Request;
use crate::{Answer, app};

/// Builds a program as `cargo run -p` does, and returns where it is.
///
/// # Panics
/// When it does not build.
pub async fn build(package: &str, program: &str) -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--message-format=json"])
        .args(["--package", package, "--bin", program])
        .stderr(Stdio::inherit())
        .output()
        .await
        .expect("cargo runs");
    assert!(built.status.success(), "{package} does not build");
    let messages = String::from_utf8(built.stdout).expect("cargo speaks UTF-8");
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(message["executable"].as_str()?.to_owned())
    });
    PathBuf::from(programs.next_back().expect("a program"))
}

/// A server in its own process, killed with this value.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    output: Mutex<Lines<BufReader<ChildStdout>>>,
    url: String,
    client: reqwest::Client,
}

/// A gate inside the process.
#[derive(Clone, Copy, Debug)]
pub enum Door {
    /// In the handler, after its writes.
    Handler,
    /// After the commit, before the answer.
    Answer,
    /// At a point of an order.
    Point(&'static str),
}

impl ServerProcess {
    /// Starts a program in a folder, and waits until it says where it listens.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(program: &Path, folder: &Path, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command
            .current_dir(folder)
            .envs(environment.iter().copied());
        // The test server ends when its standard input does, even if this process is killed.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = output
            .next_line()
            .await
            .expect("the pipe is open")
            .unwrap_or_default();
        let url = line.split_whitespace().find_map(|word| {
            let end = word.trim_end_matches(|last: char| !last.is_ascii_digit());
            end.starts_with("http://").then(|| end.to_owned())
        });
        let url = url.unwrap_or_else(|| panic!("no address in {line:?}"));
        Self {
            child,
            output: Mutex::new(output),
            url,
            client: app::client(),
        }
    }

    /// Returns the next line that the program prints.
    ///
    /// # Panics
    /// When it prints no more.
    pub async fn printed(&self) -> String {
        let line = self.output.lock().await.next_line().await;
        line.expect("the pipe is open").expect("another line")
    }

    /// Begins a GET.
    pub fn get(&self, path: &str) -> Request {
        Request::new(&self.client, Method::GET, format!("{}{path}", self.url))
    }

    /// Begins a POST.
    pub fn post(&self, path: &str) -> Request {
        Request::new(&self.client, Method::POST, format!("{}{path}", self.url))
    }

    /// Closes a gate inside the process.
    pub async fn close(&self, door: Door) {
        self.control(door, "close").await;
    }

    /// Opens a gate inside the process.
    pub async fn open(&self, door: Door) {
        self.control(door, "open").await;
    }

    /// Waits until `count` have arrived at a gate inside the process.
    pub async fn until_arrived(&self, door: Door, count: usize) {
        self.control(door, &format!("arrived/{count}")).await;
    }

    async fn control(&self, door: Door, what: &str) -> Answer {
        let door = match door {
            Door::Handler => "handler",
            Door::Answer => "answer",
            Door::Point(point) => point,
        };
        let answer = self.post(&format!("/control/{door}/{what}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    /// Kills the process, as `kill -9` does, and waits until it is gone.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("the process is killed");
    }

    /// Asks the process to stop, as `kill` does.
    ///
    /// # Panics
    /// When nobody can be asked.
    pub async fn ask_to_stop(&self) {
        self.signal("TERM").await;
    }

    /// Makes the process stand still, as a machine that is overloaded or cut off does.
    ///
    /// # Panics
    /// When there is no process.
    pub async fn freeze(&self) {
        self.signal("STOP").await;
    }

    /// Lets the process go on.
    ///
    /// # Panics
    /// When there is no process.
    pub async fn thaw(&self) {
        self.signal("CONT").await;
    }

    async fn signal(&self, name: &str) {
        let id = self.child.id().expect("the process runs");
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {id}")])
            .status()
            .await;
        assert!(sent.is_ok_and(|status| status.success()), "no process");
    }

    /// Returns a figure of its memory, in bytes: `VmRSS`, or `VmHWM` for the most that it was.
    ///
    /// # Panics
    /// When the system does not say.
    #[must_use]
    pub fn memory(&self, figure: &str) -> u64 {
        let id = self.child.id().expect("the process runs");
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("its status");
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes.expect(figure).parse().expect("a number");
        kilobytes * 1024
    }

    /// Returns where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub async fn ended(mut self) -> ExitStatus {
        self.child.wait().await.expect("the process ends")
    }
}
