//! Requests that no HTTP client would send, and clients that leave.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection on which a request was sent byte for byte.
#[derive(Debug)]
pub struct Wire(TcpStream);

impl Wire {
    /// Connects and sends the bytes.
    ///
    /// # Panics
    /// When the server does not accept.
    pub async fn send(address: SocketAddr, request: &[u8]) -> Self {
        let mut socket = TcpStream::connect(address)
            .await
            .expect("the server accepts");
        socket.write_all(request).await.expect("the server reads");
        Self(socket)
    }

    /// Leaves politely: the server sees the end of the stream (FIN).
    pub fn finish(self) {
        drop(self.0);
    }

    /// Leaves abruptly: the server sees a reset (RST).
    ///
    /// # Panics
    /// When the socket takes no options.
    pub fn reset(self) {
        self.0.set_zero_linger().expect("a socket option");
        drop(self.0);
    }

    /// Says that nothing more will be sent, and still listens.
    ///
    /// # Panics
    /// When the connection is gone.
    pub async fn half_close(&mut self) {
        self.0.shutdown().await.expect("the connection is there");
    }

    /// Reads what the server sends until it closes.
    pub async fn answer(mut self) -> String {
        let mut bytes = Vec::new();
        // A reset after the answer is as good as an end.
        let _ = self.0.read_to_end(&mut bytes).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Writes a request of account `alice` that closes its connection after the answer.
#[must_use]
pub fn post(path: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer alice/1\r\ncontent-length: {length}\r\n"
    )
    .into_bytes();
    for (name, value) in headers {
        request.extend_from_slice(name.as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    request
}
