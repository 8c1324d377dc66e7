//! A proxy in front of PostgreSQL that fails at the worst moment.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::gate::Gate;

/// What happens to a connection that sends a certain statement.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection ends, and the server never gets the statement.
    CutBefore,
    /// The server runs the statement, and the connection ends before its reply arrives.
    CutAfter,
    /// The reply waits at the gate.
    Hold(Gate),
}

/// A proxy that ends with this value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    rule: Rule,
    task: AbortHandle,
}

/// The statement to wait for, in lower case, and what to do then, once.
type Rule = Arc<Mutex<Option<(&'static str, Fault)>>>;

impl Proxy {
    pub(crate) async fn start(server: (String, u16)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let rule = Rule::default();
        let task = tokio::spawn(accept(listener, server, Arc::clone(&rule))).abort_handle();
        Self { port, rule, task }
    }

    /// Fails the next connection that sends the statement.
    pub fn fail(&self, statement: &'static str, fault: Fault) {
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = Some((statement, fault));
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

async fn accept(listener: TcpListener, server: (String, u16), rule: Rule) {
    // Dropped together with this future, which ends the connections.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(server.clone())
            .await
            .expect("PostgreSQL accepts");
        connections.spawn(relay(client, server, Arc::clone(&rule)));
    }
}

/// Copies in both directions until one side leaves or a fault ends it.
async fn relay(mut client: TcpStream, mut server: TcpStream, rule: Rule) {
    let (mut sent, mut replied) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut fault = None;
    loop {
        tokio::select! {
            read = client.read(&mut sent) => {
                let Some(sent) = read.ok().filter(|read| *read > 0).map(|read| &sent[..read]) else {
                    return;
                };
                fault = triggered(&rule, sent).or(fault);
                if matches!(fault, Some(Fault::CutBefore)) || server.write_all(sent).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut replied) => {
                let Some(reply) = read.ok().filter(|read| *read > 0).map(|read| &replied[..read]) else {
                    return;
                };
                match fault.take() {
                    Some(Fault::CutBefore | Fault::CutAfter) => return,
                    Some(Fault::Hold(gate)) => gate.pass().await,
                    None => {}
                }
                if client.write_all(reply).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Takes the rule if these bytes hold its statement. A statement this short comes in one piece.
fn triggered(rule: &Rule, sent: &[u8]) -> Option<Fault> {
    let mut rule = rule.lock().unwrap_or_else(PoisonError::into_inner);
    let (statement, _) = rule.as_ref()?;
    let statement = statement.as_bytes();
    let sent = sent.to_ascii_lowercase();
    let found = sent
        .windows(statement.len())
        .any(|window| window == statement);
    if found {
        rule.take().map(|(_, fault)| fault)
    } else {
        None
    }
}
