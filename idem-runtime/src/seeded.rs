//! Bugs on purpose: the crash harness has to find each of them.
//!
//! Compiled with `--cfg idem_seeded_bugs` only, which nothing but `scripts/test` passes.

use std::env;
use std::sync::LazyLock;

static BUG: LazyLock<Option<String>> = LazyLock::new(|| env::var("IDEM_SEEDED_BUG").ok());

/// Whether this process has this bug.
pub(crate) fn bug(name: &str) -> bool {
    BUG.as_deref() == Some(name)
}
