//! A line to a server that can be cut and mended.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// The line; it ends with this value.
#[derive(Debug)]
pub struct Breaker {
    address: SocketAddr,
    whole: Arc<watch::Sender<bool>>,
    task: AbortHandle,
}

impl Breaker {
    /// Lays a line to the server.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(server: (String, u16)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let whole = Arc::new(watch::Sender::new(true));
        let task = tokio::spawn(relay(listener, server, Arc::clone(&whole)));
        Self {
            address,
            whole,
            task: task.abort_handle(),
        }
    }

    /// Where the line begins.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends every connection, and every new one at once.
    pub fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(listener: TcpListener, server: (String, u16), whole: Arc<watch::Sender<bool>>) {
    // Dropped together with this future, which ends the connections.
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let (server, mut state) = (server.clone(), whole.subscribe());
        connections.spawn(async move {
            if !*state.borrow_and_update() {
                return;
            }
            let Ok(mut server) = TcpStream::connect(server).await else {
                return;
            };
            tokio::select! {
                _ = copy_bidirectional(&mut client, &mut server) => {}
                _ = state.wait_for(|whole| !whole) => {}
            }
        });
    }
}
