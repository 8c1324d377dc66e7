//! A sink whose consumer is in the same process: for tests, and to begin without a broker.

use tokio::sync::{mpsc, oneshot};

use super::{Envelope, Sink, SinkError};

/// Makes a sink and its deliveries; `capacity` is how many wait for the consumer.
///
/// A message is confirmed when its delivery is acknowledged, not when it is delivered, so that
/// nothing is lost when the process dies in between. It must be acknowledged within the relay's
/// time-out, the wait for the consumer included: a consumer that takes one after the other needs
/// [`concurrency`](super::Relay::concurrency) times its own time for the last one.
///
/// # Panics
/// When `capacity` is zero.
#[must_use]
pub fn in_process(capacity: usize) -> (InProcess, Deliveries) {
    let (deliveries, receiver) = mpsc::channel(capacity);
    (InProcess { deliveries }, Deliveries { receiver })
}

/// The sink of [`in_process`].
#[derive(Clone, Debug)]
pub struct InProcess {
    deliveries: mpsc::Sender<Delivery>,
}

/// What comes out of [`in_process`].
#[derive(Debug)]
pub struct Deliveries {
    receiver: mpsc::Receiver<Delivery>,
}

impl Deliveries {
    /// Waits for the next delivery; `None` when there is no sink any more.
    ///
    /// One that the relay no longer waits for is left out: it comes again, and a consumer that is
    /// behind would be later still for the rest.
    ///
    /// # Cancel safety
    /// Nothing is lost when this future is dropped.
    pub async fn recv(&mut self) -> Option<Delivery> {
        loop {
            let delivery = self.receiver.recv().await?;
            if !delivery.acknowledged.is_closed() {
                return Some(delivery);
            }
        }
    }
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
