//! The connections that a handler can take.

use sqlx::Transaction;

use crate::store::Backend;

/// The type behind a handler's `&mut` parameter: it runs in the transaction that holds the key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no database connection that can hold the idempotency key",
    label = "expected `PgConnection`, `SqliteConnection`, or a `Transaction` of their databases",
    note = "the features `postgres` and `sqlite` of `idem-runtime` turn them on"
)]
pub trait AtomicConnection: Send + 'static {
    /// The database it belongs to.
    type Database: Backend;

    /// Lends the handler its view of the transaction.
    fn of<'t>(tx: &'t mut Transaction<'static, Self::Database>) -> &'t mut Self;
}

#[cfg(feature = "postgres")]
#[diagnostic::do_not_recommend]
impl AtomicConnection for sqlx::PgConnection {
    type Database = sqlx::Postgres;

    fn of<'t>(tx: &'t mut Transaction<'static, sqlx::Postgres>) -> &'t mut Self {
        tx
    }
}

#[cfg(feature = "sqlite")]
#[diagnostic::do_not_recommend]
impl AtomicConnection for sqlx::SqliteConnection {
    type Database = sqlx::Sqlite;

    fn of<'t>(tx: &'t mut Transaction<'static, sqlx::Sqlite>) -> &'t mut Self {
        tx
    }
}

#[diagnostic::do_not_recommend]
impl<DB: Backend> AtomicConnection for Transaction<'static, DB> {
    type Database = DB;

    fn of<'t>(tx: &'t mut Transaction<'static, DB>) -> &'t mut Self {
        tx
    }
}
