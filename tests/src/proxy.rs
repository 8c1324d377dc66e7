//! A proxy in front of PostgreSQL that fails at the worst moment.
//!
//! It understands the frames of the protocol, so a fault hits one statement and not the bytes that
//! happen to travel with it, and so that it can count what a request waits for.

mod frames;

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use self::frames::{Replies, Requests};
use crate::gate::Gate;

/// What happens to a connection that sends a certain statement.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection ends, and the server never gets the statement.
    CutBefore,
    /// The server runs the statement to its end, and the connection ends before its reply arrives.
    CutAfter,
    /// The statement waits at the gate before the server gets it.
    Delay(Gate),
    /// The reply waits at the gate.
    Hold(Gate),
    /// From the statement on nothing arrives, and neither side hears that the other is gone.
    Blackhole,
}

/// A proxy that ends with this value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    seen: Arc<Seen>,
    task: AbortHandle,
}

/// What the connections have in common.
#[derive(Debug)]
struct Seen {
    /// The beginning of the statement to wait for, in lower case, and what to do then, once.
    rule: Mutex<Option<(&'static str, Fault)>>,
    /// What was sent and waited for, in lower case.
    round_trips: Mutex<Vec<String>>,
}

impl Proxy {
    pub(crate) async fn start(server: (String, u16)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Seen {
            rule: Mutex::default(),
            round_trips: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, server, Arc::clone(&seen))).abort_handle();
        Self { port, seen, task }
    }

    /// Fails the next connection that sends a statement which begins like this, in lower case.
    pub fn fail(&self, statement: &'static str, fault: Fault) {
        *self.seen.rule() = Some((statement, fault));
    }

    /// Says whether the fault is still to come.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.seen.rule().is_some()
    }

    /// Returns the round trips that were begun since the last call, in lower case: a statement,
    /// `prepare` and the statement, or `ping`.
    #[must_use]
    pub fn round_trips(&self) -> Vec<String> {
        mem::take(&mut *self.seen.round_trips())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections and accepts no new one.
    pub fn cut(&self) {
        self.task.abort();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

impl Seen {
    fn rule(&self) -> MutexGuard<'_, Option<(&'static str, Fault)>> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn round_trips(&self) -> MutexGuard<'_, Vec<String>> {
        self.round_trips
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the fault if this is its statement.
    fn triggered(&self, statement: &str) -> Option<Fault> {
        let fault = self
            .rule()
            .take_if(|(beginning, _)| statement.starts_with(*beginning));
        fault.map(|(_, fault)| fault)
    }
}

async fn accept(listener: TcpListener, server: (String, u16), seen: Arc<Seen>) {
    // Dropped together with this future, which ends the connections.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        // The server may be gone, which is what its client will find out.
        if let Ok(server) = TcpStream::connect(server.clone()).await {
            let relay = Relay {
                client,
                server,
                requests: Requests::default(),
                replies: Replies::default(),
                held: None,
            };
            connections.spawn(relay.run(Arc::clone(&seen)));
        }
    }
}

/// One connection.
struct Relay {
    client: TcpStream,
    server: TcpStream,
    requests: Requests,
    replies: Replies,
    /// What happens to the reply that comes next.
    held: Option<Fault>,
}

/// One side has left, or a fault has ended the connection.
struct Over;

impl From<std::io::Error> for Over {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

impl Relay {
    async fn run(mut self, seen: Arc<Seen>) {
        let (mut sent, mut replied) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
        loop {
            let done = tokio::select! {
                read = self.client.read(&mut sent) => match read {
                    Ok(length @ 1..) => self.pass_on(&sent[..length], &seen).await,
                    _ => Err(Over),
                },
                read = self.server.read(&mut replied) => match read {
                    Ok(length @ 1..) => self.pass_back(&replied[..length]).await,
                    _ => Err(Over),
                },
            };
            if done.is_err() {
                return;
            }
        }
    }

    async fn pass_on(&mut self, bytes: &[u8], seen: &Seen) -> Result<(), Over> {
        self.requests.push(bytes);
        while let Some(batch) = self.requests.next() {
            match batch.runs.and_then(|statement| seen.triggered(&statement)) {
                Some(Fault::CutBefore) => return Err(Over),
                Some(Fault::Delay(gate)) => gate.pass().await,
                // Both sockets stay open until the proxy ends.
                Some(Fault::Blackhole) => std::future::pending().await,
                Some(fault) => self.held = Some(fault),
                None => {}
            }
            if let Some(what) = batch.awaits {
                seen.round_trips().push(what);
            }
            self.server.write_all(&batch.bytes).await?;
        }
        Ok(())
    }

    async fn pass_back(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let done = self.replies.push(bytes);
        match &self.held {
            Some(Fault::CutAfter) => return if done { Err(Over) } else { Ok(()) },
            Some(Fault::Hold(gate)) => {
                gate.pass().await;
                self.held = None;
            }
            _ => {}
        }
        Ok(self.client.write_all(bytes).await?)
    }
}
