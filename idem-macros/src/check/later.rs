//! What the attribute understands and the runtime does not do yet. Each refusal
//! is one function; the version that brings the feature removes it.

use crate::diag::Mistakes;
use crate::names;
use crate::options::Options;

pub(crate) fn check(options: &Options, mistakes: &Mistakes) {
    check_message(options, mistakes);
}

fn check_message(options: &Options, mistakes: &Mistakes) {
    if let Some(message) = options.given(names::MESSAGE) {
        let what = "`message` comes with a later version of `idem-runtime`";
        let help = "use `Idempotency::once(…)` in the consumer until then";
        mistakes.add(message, what, help);
    }
}
