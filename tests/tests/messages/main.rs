//! What the library promises beyond the request: consumers, the outbox, and its relays.

#[macro_use]
#[path = "../contract/stamp.rs"]
mod stamp;

mod backlog;
mod billing;
mod broker_chaos;
mod chaos;
mod fixture;
mod inbox;
mod nats;
mod outbox;
mod rabbitmq;
mod relays;
mod webhooks;
