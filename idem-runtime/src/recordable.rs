//! What can be recorded under a key, for a later attempt to read.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Anything that serde writes and reads: one bound, so that one is not met.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded; a later attempt could not read it",
    label = "expected a type that is `Serialize` and `DeserializeOwned`",
    note = "return what identifies it, such as its id, or add `#[derive(serde::Serialize, serde::Deserialize)]` to it"
)]
pub trait Recordable: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Recordable for T {}
