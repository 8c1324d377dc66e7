//! What the library promises beyond the request: consumers, the outbox, and its relays.

#[macro_use]
#[path = "../contract/stamp.rs"]
mod stamp;

mod chaos;
mod fixture;
mod inbox;
mod outbox;
mod relays;
