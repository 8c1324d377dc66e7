//! A line to a broker that takes everything and, while it is muted, confirms nothing.

use std::mem;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// The line; it ends with this value.
#[derive(Debug)]
pub struct MuteLine {
    port: u16,
    muted: watch::Sender<bool>,
    task: AbortHandle,
}

/// What the broker speaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    Amqp,
    Nats,
}

impl MuteLine {
    pub(super) async fn start(server: (String, u16), protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let muted = watch::Sender::new(false);
        let line = accept(listener, server, protocol, muted.subscribe());
        let task = tokio::spawn(line).abort_handle();
        Self { port, muted, task }
    }

    /// Where the line begins.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Keeps confirmations back from now on, for ever.
    pub fn mute(&self) {
        self.muted.send_replace(true);
    }

    /// Lets confirmations through from now on.
    pub fn unmute(&self) {
        self.muted.send_replace(false);
    }
}

impl Drop for MuteLine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    server: (String, u16),
    protocol: Protocol,
    muted: watch::Receiver<bool>,
) {
    // Dropped together with this future, which ends the connections.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(server.clone()).await;
        let (mut sent, client) = client.into_split();
        let (replies, mut server) = server.expect("the broker accepts").into_split();
        let muted = muted.clone();
        connections.spawn(async move {
            tokio::select! {
                _ = copy(&mut sent, &mut server) => {}
                _ = pass_back(replies, client, protocol, muted) => {}
            }
        });
    }
}

async fn pass_back(
    mut replies: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    protocol: Protocol,
    muted: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut unread = Vec::new();
    while replies.read_buf(&mut unread).await? > 0 {
        while let Some(frame) = protocol.next(&mut unread) {
            if !(protocol.confirms(&frame) && *muted.borrow()) {
                client.write_all(&frame).await?;
            }
        }
    }
    Ok(())
}

impl Protocol {
    /// Takes the next piece that can be kept back alone.
    fn next(self, unread: &mut Vec<u8>) -> Option<Vec<u8>> {
        let length = match self {
            // Whatever came: what else there is to hear does not matter to who publishes.
            Self::Nats => unread.len(),
            // Type, channel, size, payload, end.
            Self::Amqp => {
                let size = unread.get(3..7)?.try_into().expect("four bytes");
                usize::try_from(u32::from_be_bytes(size)).expect("a size") + 8
            }
        };
        if length == 0 || unread.len() < length {
            return None;
        }
        let rest = unread.split_off(length);
        Some(mem::replace(unread, rest))
    }

    /// `basic.ack` is method 80 of class 60.
    fn confirms(self, frame: &[u8]) -> bool {
        match self {
            Self::Nats => true,
            Self::Amqp => frame[0] == 1 && frame[7..11] == [0, 60, 0, 80],
        }
    }
}
