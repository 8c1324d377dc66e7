//! The rules, one function each. Every rule reports its own mistake and leaves
//! the others to go on, so that one build shows all mistakes.

mod agreement;
mod arguments;
mod borrowing;
mod database;
mod exits;
mod extractors;
mod message;
mod mode;
mod parameters;
mod placement;
mod signature;

pub(crate) use arguments::expressions;
pub(crate) use database::any_database;
pub(crate) use extractors::{acceptable, is_plain_value};
pub(crate) use mode::wrapped_connection;
pub(crate) use placement::is_ours;
pub(crate) use signature::some_trait;

use crate::debug_handler;
use crate::diag::Mistakes;
use crate::handler::Handler;
use crate::options::Options;

/// The features that the runtime was built with.
#[derive(Clone, Copy)]
pub(crate) struct Features {
    pub(crate) postgres: bool,
    pub(crate) sqlite: bool,
    pub(crate) axum: bool,
}

impl Features {
    pub(crate) const ENABLED: Self = Self {
        postgres: cfg!(feature = "postgres"),
        sqlite: cfg!(feature = "sqlite"),
        axum: cfg!(feature = "axum"),
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
pub(crate) fn check(handler: &Handler, options: &Options, features: Features, mistakes: &Mistakes) {
    if placement::check(handler, options, mistakes).is_misplaced() {
        return;
    }
    signature::check(handler, mistakes);
    mode::check(handler, features, mistakes);
    parameters::check(handler, options, mistakes);
    if crate::message::is_wanted(options) {
        message::check(handler, options, mistakes);
    } else {
        mode::check_http(handler, features, mistakes);
        extractors::check(handler, mistakes);
    }
    debug_handler::check(handler, options, mistakes);
    agreement::check(handler, options, mistakes);
    arguments::check(handler, options, mistakes);
}
