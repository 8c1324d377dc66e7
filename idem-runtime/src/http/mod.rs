//! The HTTP contract: what a request must bring, and what each outcome looks like.
//!
//! Nothing here knows SQL.

mod call;
mod handler;
mod options;
mod problem;
mod reply;
mod run;

pub use call::{Extractor, HandleOf, HandleSource, Idempotent, LastExtractor};
pub use options::Requested;
pub(crate) use problem::Renderer;
pub use problem::{Problem, ProblemKind};
pub use reply::Recorded;
pub(crate) use reply::kept;
#[cfg(any(test, idem_fuzzing))]
pub(crate) use reply::replay;
pub use run::{Run, run};
