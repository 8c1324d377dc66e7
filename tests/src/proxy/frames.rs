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
    /// The statement that runs next.
    bound: String,
    batch: Batch,
}

/// Frames that are sent together, up to the one whose answer the client waits for.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// The statement that it runs, in lower case.
    pub(super) runs: Option<String>,
    /// What the client waits for.
    pub(super) awaits: Option<String>,
    prepares: Option<String>,
}

const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();

impl Requests {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next batch, if it is there as a whole.
    pub(super) fn next(&mut self) -> Option<Batch> {
        loop {
            let letter = usize::from(self.started);
            let end = letter + length(self.buffer.get(letter..)?)?;
            if self.buffer.len() < end {
                return None;
            }
            let rest = self.buffer.split_off(end);
            let frame = mem::replace(&mut self.buffer, rest);
            let ends = if self.started {
                self.look_at(frame[0], &frame[5..])
            } else {
                self.started = frame[4..] != SSL_REQUEST;
                true
            };
            self.batch.bytes.extend_from_slice(&frame);
            if ends {
                return Some(mem::take(&mut self.batch));
            }
        }
    }

    /// Notes what a frame is for, and says whether it ends a batch.
    fn look_at(&mut self, letter: u8, content: &[u8]) -> bool {
        let mut texts = content.split(|byte| *byte == 0);
        let mut text = || texts.next().unwrap_or_default();
        match letter {
            // Query
            b'Q' => {
                let statement = lower_case(text());
                self.batch.runs = Some(statement.clone());
                self.batch.awaits = Some(statement);
                true
            }
            // Parse
            b'P' => {
                let (name, statement) = (text().to_vec(), lower_case(text()));
                self.batch.prepares = Some(format!("prepare {statement}"));
                self.prepared.insert(name, statement);
                false
            }
            // Bind
            b'B' => {
                let _portal = text();
                self.bound = self.prepared.get(text()).cloned().unwrap_or_default();
                false
            }
            // Execute
            b'E' => {
                self.batch.runs = Some(self.bound.clone());
                false
            }
            // Sync
            b'S' => {
                let batch = &mut self.batch;
                let what = batch.runs.clone().or_else(|| batch.prepares.take());
                batch.awaits = Some(what.unwrap_or_else(|| "ping".to_owned()));
                true
            }
            // Describe and Close
            b'D' | b'C' => false,
            _ => true,
        }
    }
}

/// The length at the beginning of these bytes, which counts itself.
fn length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk()?;
    usize::try_from(u32::from_be_bytes(*length)).ok()
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
            1 + length(&self.buffer[1..])?
        };
        if self.buffer.len() < end {
            return None;
        }
        self.buffer.drain(..end);
        self.started = true;
        Some(letter)
    }
}
