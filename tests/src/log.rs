//! What the library logs.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::format::FmtSpan;

/// The log of this thread, on which all of a test runs that has one thread.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps everything that is logged while the guard lives, at every level.
    #[must_use]
    pub fn capture() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Returns what was logged.
    ///
    /// # Panics
    /// When a test did while it logged.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("the log")).into_owned()
    }

    /// Asserts that all this is in one line.
    ///
    /// # Panics
    /// When it is not.
    pub fn assert_line(&self, parts: &[&str]) {
        let text = self.text();
        let found = text
            .lines()
            .any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "no line with {parts:?}");
    }

    /// Asserts that the library has logged something, and nothing with this mark in it.
    ///
    /// # Panics
    /// When that is not so.
    pub fn assert_without(&self, mark: &str) {
        let text = self.text();
        assert!(text.contains("idem_runtime"), "nothing was captured");
        // What other crates log of a request is theirs, and off in production.
        let ours = text
            .lines()
            .filter(|line| !line.contains(" hyper") && !line.contains(" reqwest"));
        let leaks: Vec<_> = ours
            .filter(|line| line.to_lowercase().contains(mark))
            .collect();
        assert!(leaks.is_empty(), "{}", leaks.join("\n"));
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("the log").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
