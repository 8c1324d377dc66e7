//! Messages by way of NATS JetStream.

use async_nats::ConnectOptions;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt;
use std::time::Duration;

use crate::{App, Failure, Fate};

/// Connects, and creates the stream of the orders' messages.
pub(crate) async fn connect(url: &str) -> Result<Context, Failure> {
    let context = jetstream::new(ConnectOptions::new().connect(url).await?);
    let orders = stream::Config {
        name: "orders".into(),
        subjects: vec!["order.>".into()],
        ..stream::Config::default()
    };
    context.get_or_create_stream(orders).await?;
    Ok(context)
}

/// Consumes what is told about orders. A message that is not acknowledged comes again; one that is set
/// aside does not, and stays in the stream.
pub(crate) async fn consume(app: &App, context: &Context) -> Result<(), Failure> {
    let billing = pull::Config {
        durable_name: Some("billing".into()),
        ack_wait: Duration::from_secs(2),
        ..pull::Config::default()
    };
    let stream = context.get_stream("orders").await?;
    let consumer: PullConsumer = stream.get_or_create_consumer("billing", billing).await?;
    let mut messages = consumer.messages().await?;
    while let Some(message) = messages.next().await {
        let message = message?;
        match crate::consume(app, &message.payload).await {
            Fate::Acknowledged => message.ack().await?,
            Fate::SetAside => message.ack_with(AckKind::Term).await?,
            Fate::Left => {}
        }
    }
    Ok(())
}
