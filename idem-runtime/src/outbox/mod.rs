//! Messages that leave with the writes they tell of.
//!
//! [`publish`] writes a message into a table, in the caller's own transaction: it is there if and
//! only if the writes are. A [`Relay`] takes it from there to a [`Sink`], at least once, and in
//! order for each key; consumers see its effect once through `#[idempotent(message, …)]`.
//!
//! Sinks: NATS JetStream (feature `nats`), RabbitMQ (`rabbitmq`), and Standard Webhooks
//! (`webhooks`), which leave TLS to the features of `async-nats`, `lapin`, and `reqwest`;
//! [`in_process`] without a broker; and whatever implements [`Sink`].
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! # use idem_runtime::outbox::{self, Message};
//! # async fn example(tx: &mut sqlx::SqliteConnection) -> Result<(), Box<dyn std::error::Error>> {
//! sqlx::query("update orders set paid = true where id = 17").execute(&mut *tx).await?;
//! outbox::publish(tx, Message {
//!     topic: "order.paid".into(),
//!     key: Some("order-17".into()),
//!     payload: br#"{"order":17}"#.as_slice().into(),
//!     ..Message::default()
//! }).await?;
//! # Ok(()) }
//! # }
//! ```

mod attempt;
mod dead;
mod in_process;
#[cfg(feature = "nats")]
mod jetstream;
mod message;
mod outage;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod relay;
mod settings;
mod sink;
mod wake;
#[cfg(feature = "webhooks")]
mod webhooks;

use sqlx::{Database, Transaction};
use uuid::Uuid;

use crate::handle::Idempotency;
use crate::store::outbox::{NewRow, OutboxStatements, insert};
use crate::store::{Backend, Store, Tables};

pub use dead::DeadLetter;
pub use in_process::{Deliveries, Delivery, InProcess, in_process};
#[cfg(feature = "nats")]
pub use jetstream::JetStream;
pub use message::{Envelope, InvalidMessage, Message};
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::RabbitMq;
pub use relay::{Relay, RelayTask};
pub use sink::{Sink, SinkError};
pub(crate) use wake::Wakes;
#[cfg(feature = "webhooks")]
pub use webhooks::{InvalidSecret, Webhooks, WebhooksError};

/// A connection with an open transaction, in which a message can be written.
///
/// Implemented for `PgConnection`, `SqliteConnection`, and `Transaction` of their databases.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no database connection with an outbox",
    label = "expected `PgConnection`, `SqliteConnection`, or a `Transaction` of their databases"
)]
pub trait InTransaction: Send {
    /// The database it belongs to.
    type Database: Backend;

    /// Lends the connection.
    fn connection(&mut self) -> &mut <Self::Database as Database>::Connection;
}

#[cfg(feature = "postgres")]
impl InTransaction for sqlx::PgConnection {
    type Database = sqlx::Postgres;

    fn connection(&mut self) -> &mut Self {
        self
    }
}

#[cfg(feature = "sqlite")]
impl InTransaction for sqlx::SqliteConnection {
    type Database = sqlx::Sqlite;

    fn connection(&mut self) -> &mut Self {
        self
    }
}

impl<DB: Backend> InTransaction for Transaction<'_, DB> {
    type Database = DB;

    fn connection(&mut self) -> &mut DB::Connection {
        self
    }
}

/// Writes a message into the table `outbox`, in the caller's transaction, and returns its id,
/// which is the same for every attempt at sending it.
///
/// Messages with the same key are sent in the order in which they were written. Where two
/// transactions write for one key at once, let both lock what the key stands for first: without
/// that neither is the earlier one. Outside a transaction the message is there at once, whatever
/// becomes of the writes around it.
///
/// On PostgreSQL the commit wakes the relays. In a handler, a step, a consumer, or the work of
/// [`Idempotency::once`] they are woken behind the commit, since the server lets one transaction with a
/// notification commit at a time.
///
/// # Errors
/// [`sqlx::Error`] like every other statement of the transaction; a message that breaks a rule
/// of [`Message`] is [`sqlx::Error::Encode`] with [`InvalidMessage`] inside, and touches nothing.
pub async fn publish<C>(tx: &mut C, message: Message) -> Result<Uuid, sqlx::Error>
where
    C: InTransaction + ?Sized,
{
    let sql = C::Database::outbox_statements(&Tables::default());
    write::<C::Database>(tx.connection(), &sql, message).await
}

async fn write<DB: Backend>(
    conn: &mut DB::Connection,
    sql: &OutboxStatements,
    message: Message,
) -> Result<Uuid, sqlx::Error> {
    let headers = message
        .checked_headers()
        .map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    let id = Uuid::new_v4();
    let row = NewRow {
        message_id: &id.to_string(),
        topic: &message.topic,
        key: message.key.as_deref(),
        headers: &headers,
        payload: &message.payload,
    };
    insert::<DB>(conn, sql, row, wake::leave).await?;
    Ok(id)
}

/// The outbox of a handle: what [`publish`] is for the table of the default name, and what an
/// operator needs.
#[derive(Debug)]
pub struct Outbox<'a, DB: Backend> {
    handle: &'a Idempotency<DB>,
}

impl<DB: Backend> Idempotency<DB> {
    /// Returns the outbox in this handle's database.
    #[must_use]
    pub fn outbox(&self) -> Outbox<'_, DB> {
        Outbox { handle: self }
    }
}

impl<DB: Backend> Outbox<'_, DB> {
    /// Writes a message into this handle's table; otherwise like the function [`publish`].
    ///
    /// # Errors
    /// As of the function [`publish`].
    pub async fn publish<C>(&self, tx: &mut C, message: Message) -> Result<Uuid, sqlx::Error>
    where
        C: InTransaction<Database = DB> + ?Sized,
    {
        write::<DB>(tx.connection(), &self.handle.statements().outbox, message).await
    }
}
