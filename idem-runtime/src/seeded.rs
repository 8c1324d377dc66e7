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

/// A statement of leased mode, with what fences it taken away: from each, or from the release,
/// which then removes the row, as a release without a fence does elsewhere.
pub(crate) fn unfenced(statement: &str) -> String {
    const FENCE: &str =
        "and attempt = $4 and {created} = $5 and state = 1 and locked_until is not null";
    const NO_FENCE: &str = "and $4::int is not null and $5::int8 is not null";
    const RELEASE: &str = "update {keys} set locked_until = null where";
    if bug("no_fence") {
        statement.replace(FENCE, NO_FENCE)
    } else if bug("release_without_fence") && statement.starts_with(RELEASE) {
        let removal = statement.replace(RELEASE, "delete from {keys} where");
        removal.replace(FENCE, NO_FENCE)
    } else {
        statement.to_owned()
    }
}
