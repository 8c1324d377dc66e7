//! The notifications that tell a relay of new messages.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::time::sleep;

/// How long after a failure somebody listens again.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// Says something whenever a message may have come into the outbox of this name.
pub(super) fn listen_to(pool: &PgPool, outbox: &str) -> BoxStream<'static, ()> {
    // A connection of its own: the pool's are for those who work.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with((*pool.connect_options()).clone());
    let state = (pool, outbox.to_owned(), None);
    stream::unfold(state, |(pool, channel, listener)| async move {
        // What came while nobody listened was not heard: a new listener is news itself.
        let listener = match listener {
            Some(mut listener) => next_arrival(&mut listener).await.then_some(listener),
            None => listen(&pool, &channel).await,
        };
        if listener.is_none() {
            sleep(LISTEN_PAUSE).await;
        }
        Some(((), (pool, channel, listener)))
    })
    .boxed()
}

async fn listen(pool: &PgPool, channel: &str) -> Option<PgListener> {
    let listening = async {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(channel).await?;
        Ok::<_, sqlx::Error>(listener)
    };
    match listening.await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::debug!(%error, "nobody listens for messages of the outbox");
            None
        }
    }
}

/// Waits for a notification; false when the connection is lost.
async fn next_arrival(listener: &mut PgListener) -> bool {
    matches!(listener.try_recv().await, Ok(Some(_)))
}
