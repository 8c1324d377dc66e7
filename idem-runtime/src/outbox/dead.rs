//! What an operator does about messages that could not be sent.

use uuid::Uuid;

use super::{Envelope, Outbox};
use crate::error::StoreError;
use crate::store::{Backend, outbox, store_error};

/// A message that is not tried again by itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The message; its attempt is the one that a resending would begin anew.
    pub envelope: Envelope,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl<DB: Backend> Outbox<'_, DB> {
    /// Lists up to `limit` dead letters, the oldest first.
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
                let letter = |mut row: outbox::MessageRow| {
                    let error = row.error.take();
                    Ok(DeadLetter {
                        envelope: Envelope::read(row)?,
                        error,
                    })
                };
                rows.and_then(|rows| rows.into_iter().map(letter).collect())
                    .map_err(store_error::<DB>)
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
                let _turn = if DB::SINGLE_WRITER {
                    Some(handle.turn_to_write().await?)
                } else {
                    None
                };
                let mut conn = handle.acquire().await?;
                let sql = &handle.statements().outbox;
                outbox::resend::<DB>(&mut conn, sql, &id.to_string())
                    .await
                    .map_err(store_error::<DB>)
            })
            .await
    }
}
