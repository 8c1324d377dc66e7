//! A server that does, on each connection, what its script says.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// What happens on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A reset before the request is read.
    ResetBefore,
    /// The request is read, then a reset.
    ResetAfter,
    /// The request is read, then the connection ends politely.
    CloseAfter,
    /// The request is read, and nothing is ever answered.
    Silence,
    /// The request is read, and this is sent before the connection ends.
    Send(Vec<u8>),
    /// As `Send`, but the connection stays open.
    SendAndHold(Vec<u8>),
}

/// Answers with a status, header lines, and a body of the right length.
pub(crate) fn answer(status: u16, headers: &[&str], body: &str) -> Fault {
    let length = format!("content-length: {}", body.len());
    let headers = [headers, &[&length, "connection: close"]].concat();
    let head = format!("HTTP/1.1 {status} Word\r\n{}\r\n\r\n", headers.join("\r\n"));
    Fault::Send((head + body).into_bytes())
}

/// Refuses with a problem.
pub(crate) fn problem(status: u16, retryable: bool) -> Fault {
    let json = "content-type: application/problem+json; charset=utf-8";
    answer(status, &[json], &problem_body(status, retryable))
}

pub(crate) fn problem_body(status: u16, retryable: bool) -> String {
    format!(r#"{{"type": "about:blank", "status": {status}, "retryable": {retryable}}}"#)
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Seen {
    /// The values of a header's lines.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let lines = lines.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value).collect()
    }
}

/// The server; when its script has ended it answers 201 and `done`.
#[derive(Debug)]
pub(crate) struct FaultyServer {
    url: String,
    log: Arc<Mutex<Log>>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Log {
    connections: usize,
    seen: Vec<Seen>,
}

impl FaultyServer {
    pub(crate) async fn start(script: impl IntoIterator<Item = Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::on(listener, script)
    }

    pub(crate) fn on(listener: TcpListener, script: impl IntoIterator<Item = Fault>) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let log = Arc::default();
        let script: Vec<_> = script.into_iter().collect();
        let task = tokio::spawn(serve(listener, script, Arc::clone(&log))).abort_handle();
        Self { url, log, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn connections(&self) -> usize {
        self.lock().connections
    }

    /// The requests that were read, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    /// The one key that all of them had.
    pub(crate) fn the_one_key(&self) -> String {
        let seen = self.seen();
        let keys: Vec<_> = seen
            .iter()
            .map(|seen| seen.header("idempotency-key"))
            .collect();
        let [first] = keys[0][..] else {
            panic!("not one key: {keys:?}");
        };
        assert!(keys.iter().all(|key| key[..] == [first]), "{keys:?}");
        first.to_owned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, script: Vec<Fault>, log: Arc<Mutex<Log>>) {
    let mut script = script.into_iter();
    let mut held = Vec::new();
    loop {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let fault = script.next().unwrap_or_else(|| answer(201, &[], "done"));
        log.lock().expect("no panic").connections += 1;
        if matches!(fault, Fault::ResetBefore) {
            socket.set_zero_linger().expect("a socket option");
            continue;
        }
        let Some(seen) = read(&mut socket).await else {
            continue;
        };
        log.lock().expect("no panic").seen.push(seen);
        match fault {
            Fault::ResetBefore | Fault::CloseAfter => {}
            Fault::ResetAfter => socket.set_zero_linger().expect("a socket option"),
            Fault::Silence => held.push(socket),
            Fault::Send(bytes) => {
                let _ = socket.write_all(&bytes).await;
            }
            Fault::SendAndHold(bytes) => {
                let _ = socket.write_all(&bytes).await;
                held.push(socket);
            }
        }
    }
}

/// Reads a whole request; `None` when the client leaves before.
async fn read(socket: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let seen = Seen {
            head: head.to_owned(),
            body: body.to_owned(),
        };
        let length = seen.header("content-length");
        let length = length
            .first()
            .map_or(0, |length| length.parse().expect("a number"));
        if seen.body.len() >= length {
            return Some(seen);
        }
    }
}
