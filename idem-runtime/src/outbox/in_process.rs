//! A sink whose consumer is in the same process: for tests, and to begin without a broker.

use tokio::sync::{mpsc, oneshot};

use super::{Envelope, Sink, SinkError};

/// Makes a sink and the stream of its deliveries; `capacity` is how many wait for the consumer.
///
/// A message is confirmed when its delivery is acknowledged, not when it is delivered, so that
/// nothing is lost when the process dies in between.
///
/// # Panics
/// When `capacity` is zero.
#[must_use]
pub fn in_process(capacity: usize) -> (InProcess, mpsc::Receiver<Delivery>) {
    let (deliveries, receiver) = mpsc::channel(capacity);
    (InProcess { deliveries }, receiver)
}

/// The sink of [`in_process`].
#[derive(Clone, Debug)]
pub struct InProcess {
    deliveries: mpsc::Sender<Delivery>,
}

/// A message before its consumer. Dropped without an acknowledgement, it is delivered again.
#[derive(Debug)]
#[must_use = "dropped without an acknowledgement, it is delivered again"]
pub struct Delivery {
    /// The message.
    pub envelope: Envelope,
    acknowledged: oneshot::Sender<()>,
}

impl Delivery {
    /// Says that the message's effect is committed.
    pub fn acknowledge(self) {
        // A relay that no longer waits will deliver again, and the effect replays.
        self.acknowledged.send(()).ok();
    }
}

impl Sink for InProcess {
    async fn publish(&self, envelope: &Envelope) -> Result<(), SinkError> {
        let (acknowledged, acknowledgement) = oneshot::channel();
        let delivery = Delivery {
            envelope: envelope.clone(),
            acknowledged,
        };
        let gone = |_| SinkError::unavailable("the consumer is gone");
        self.deliveries.send(delivery).await.map_err(gone)?;
        let not = |_| SinkError::failed("the consumer did not acknowledge");
        acknowledgement.await.map_err(not)
    }
}
