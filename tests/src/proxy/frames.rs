//! The frames of PostgreSQL's protocol, version 3, as far as the proxy looks at them.

use std::collections::HashMap;
use std::mem;

/// What a client sends, from its first byte on.
#[derive(Default)]
pub(super) struct Requests {
    buffer: Vec<u8>,
    /// The first frames have no letter in front.
    started: bool,
    /// The prepared statements of this connection by their names.
    prepared: HashMap<Vec<u8>, String>,
    bound: String,
    /// What the frames since the last question are for.
    batch: Option<String>,
}

/// A whole frame.
#[derive(Default)]
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    /// The statement that it runs.
    pub(super) runs: Option<String>,
    /// What the client waits for from here on.
    pub(super) awaits: Option<String>,
}

const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();

impl Requests {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next frame, if it is there as a whole.
    pub(super) fn next(&mut self) -> Option<Request> {
        let letter = usize::from(self.started);
        let length = self.buffer.get(letter..letter + 4)?.try_into().ok()?;
        let end = letter + usize::try_from(u32::from_be_bytes(length)).ok()?;
        if self.buffer.len() < end {
            return None;
        }
        let rest = self.buffer.split_off(end);
        let bytes = mem::replace(&mut self.buffer, rest);
        let request = if self.started {
            self.look_at(bytes[0], &bytes[5..])
        } else {
            self.started = bytes[4..] != SSL_REQUEST;
            Request::default()
        };
        Some(Request { bytes, ..request })
    }

    fn look_at(&mut self, letter: u8, content: &[u8]) -> Request {
        let mut request = Request::default();
        let mut texts = content.split(|byte| *byte == 0);
        let mut text = || texts.next().unwrap_or_default();
        match letter {
            // Query
            b'Q' => {
                let statement = lower_case(text());
                request.runs = Some(statement.clone());
                request.awaits = Some(statement);
            }
            // Parse
            b'P' => {
                let (name, statement) = (text().to_vec(), lower_case(text()));
                self.batch = Some(format!("prepare {statement}"));
                self.prepared.insert(name, statement);
            }
            // Bind
            b'B' => {
                let _portal = text();
                self.bound = self.prepared.get(text()).cloned().unwrap_or_default();
            }
            // Execute
            b'E' => {
                self.batch = Some(self.bound.clone());
                request.runs = Some(self.bound.clone());
            }
            // Sync
            b'S' => request.awaits = Some(self.batch.take().unwrap_or_else(|| "ping".to_owned())),
            _ => {}
        }
        request
    }
}

fn lower_case(text: &[u8]) -> String {
    String::from_utf8_lossy(text).to_lowercase()
}

/// What the server sends.
#[derive(Default)]
pub(super) struct Replies {
    buffer: Vec<u8>,
    started: bool,
}

impl Replies {
    /// Says whether the server is ready for the next query by now.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.buffer.extend_from_slice(bytes);
        let mut ready = false;
        while let Some(letter) = self.next() {
            ready = letter == b'Z';
        }
        ready
    }

    /// Takes the next frame, if it is there as a whole, and returns its letter.
    fn next(&mut self) -> Option<u8> {
        let letter = *self.buffer.first()?;
        // The answer to the question for TLS is this letter alone: the cluster has none.
        let end = if letter == b'N' && !self.started {
            1
        } else {
            let length = self.buffer.get(1..5)?.try_into().ok()?;
            1 + usize::try_from(u32::from_be_bytes(length)).ok()?
        };
        if self.buffer.len() < end {
            return None;
        }
        self.buffer.drain(..end);
        self.started = true;
        Some(letter)
    }
}
