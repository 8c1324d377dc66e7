//! What an operator does about messages that could not be sent.

use uuid::Uuid;

use super::attempt::LIMITS;
use super::{Envelope, Outbox};
use crate::error::StoreError;
use crate::store::outbox::{self, MessageRow};
use crate::store::{Backend, store_error};

/// A message that is not tried again by itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The message; its attempt is the one that a resending would begin anew.
    pub envelope: Envelope,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl DeadLetter {
    fn read(mut row: MessageRow) -> Option<Self> {
        let (row_id, error) = (row.id, row.error.take());
        match Envelope::read(row) {
            Ok(envelope) => Some(Self { envelope, error }),
            Err(why) => {
                tracing::error!(row_id, error = %why, "a dead letter cannot be read");
                None
            }
        }
    }
}

impl<DB: Backend> Outbox<'_, DB> {
    /// Lists up to `limit` dead letters, the oldest first. One that cannot be read, as after a change
    /// by hand, counts and is left out; the log has the `id` of its row.
    ///
    /// # Errors
    /// [`StoreError`] when the table cannot be read.
    pub async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        let handle = self.handle.clone();
        self.handle
            .detached_in_time(async move {
                let mut conn = handle.acquire().await?;
                let sql = &handle.statements().outbox;
                let rows = outbox::dead::<DB>(&mut conn, sql, limit).await;
                let rows = rows.map_err(store_error::<DB>)?;
                Ok(rows.into_iter().filter_map(DeadLetter::read).collect())
            })
            .await
    }

    /// Lets a relay try a dead letter again, from the first attempt and with the same id; false
    /// when there is none of this id.
    ///
    /// Later messages of its key may have been sent meanwhile: a dead letter holds nobody back.
    ///
    /// # Errors
    /// [`StoreError`] when the table cannot be written.
    pub async fn resend(&self, id: Uuid) -> Result<bool, StoreError> {
        let handle = self.handle.clone();
        self.handle
            .detached_in_time(async move {
                // Not on its own: the transaction of a statement takes the defaults of the server.
                let mut writing = handle.begin(LIMITS).await?;
                let sql = &handle.statements().outbox;
                match outbox::resend::<DB>(&mut writing.tx, sql, &id.to_string()).await {
                    Ok(resent) => writing.commit().await.map(|()| resent),
                    Err(error) => {
                        writing.give_back().await;
                        Err(store_error::<DB>(error))
                    }
                }
            })
            .await
    }
}
