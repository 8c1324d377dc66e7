//! A sink whose consumer is in the same process: for tests, and to begin without a broker.

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{Envelope, Sink, SinkError};

/// Makes a sink and its deliveries; `capacity` is how many wait for the consumer.
///
/// A message is confirmed when its delivery is acknowledged, not when it is delivered, so that
/// nothing is lost when the process dies in between. A consumer that has not taken it in half of the
/// relay's time-out is behind: no attempt counts, and the relay pauses. One that has taken it has the
/// other half to acknowledge it.
///
/// # Panics
/// When `capacity` is zero.
#[must_use]
pub fn in_process(capacity: usize) -> (InProcess, Deliveries) {
    let (deliveries, offers) = mpsc::channel(capacity);
    (InProcess { deliveries }, Deliveries { offers })
}

/// The sink of [`in_process`].
#[derive(Clone, Debug)]
pub struct InProcess {
    deliveries: mpsc::Sender<Offer>,
}

/// A delivery, and who is told that it was taken.
type Offer = (Delivery, oneshot::Sender<()>);

/// What comes out of [`in_process`].
#[derive(Debug)]
pub struct Deliveries {
    offers: mpsc::Receiver<Offer>,
}

impl Deliveries {
    /// Waits for the next delivery; `None` when there is no sink any more.
    ///
    /// One that the sink no longer waits for is left out: it comes again, and a consumer that is
    /// behind would be later still for the rest.
    ///
    /// # Cancel safety
    /// Nothing is lost when this future is dropped.
    pub async fn recv(&mut self) -> Option<Delivery> {
        loop {
            let (delivery, taken) = self.offers.recv().await?;
            if taken.send(()).is_ok() {
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
        let offered = async {
            let (taken, taking) = oneshot::channel();
            let offer = (delivery, taken);
            self.deliveries.send(offer).await.is_ok() && taking.await.is_ok()
        };
        match timeout(envelope.limit_before(), offered).await {
            Ok(true) => {}
            Ok(false) => return Err(SinkError::unavailable("the consumer is gone")),
            Err(_) => return Err(SinkError::unavailable("the consumer is behind")),
        }
        let not = |_| SinkError::failed("the consumer did not acknowledge");
        acknowledgement.await.map_err(not)
    }
}
