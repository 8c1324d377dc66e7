//! The rules, one function each. Every rule reports its own mistake and leaves
//! the others to go on, so that one build shows all mistakes.

mod agreement;
mod arguments;
mod extractors;
mod message;
mod placement;
mod signature;

pub(crate) use arguments::expressions;
pub(crate) use extractors::acceptable;

use crate::debug_handler;
use crate::diag::Mistakes;
use crate::handler::Handler;
use crate::options::Options;

/// The backends that the runtime was built with.
#[derive(Clone, Copy)]
pub(crate) struct Backends {
    pub(crate) postgres: bool,
    pub(crate) sqlite: bool,
}

impl Backends {
    pub(crate) const ENABLED: Self = Self {
        postgres: cfg!(feature = "postgres"),
        sqlite: cfg!(feature = "sqlite"),
    };

    /// The parameter that a handler without a transaction is told to add.
    fn suggested_transaction(self) -> &'static str {
        if self.sqlite && !self.postgres {
            "tx: &mut SqliteConnection"
        } else {
            "tx: &mut PgConnection"
        }
    }
}

/// Checks everything that the tokens tell.
pub(crate) fn check(handler: &Handler, options: &Options, backends: Backends, mistakes: &Mistakes) {
    if placement::check(handler, mistakes).is_misplaced() {
        return;
    }
    signature::check(handler, backends, mistakes);
    if crate::message::is_wanted(options) {
        message::check(handler, options, mistakes);
    } else {
        extractors::check(handler, mistakes);
    }
    debug_handler::check(handler, options, mistakes);
    agreement::check(handler, options, mistakes);
    arguments::check(handler, options, mistakes);
}
