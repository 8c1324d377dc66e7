//! The example of billing, as a reader runs it.

use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::PullConsumer;
use idem_tests::broker::nats;
use idem_tests::process::build;
use tempfile::TempDir;
use tokio::process::Command;

async fn example(folder: &TempDir, environment: &[(&str, &str)]) -> Command {
    let program = build("example-billing", "example-billing").await;
    let mut command = Command::new(program);
    command
        .current_dir(folder.path())
        .env_remove("DATABASE_URL")
        .env_remove("NATS_URL")
        .envs(environment.iter().copied())
        .kill_on_drop(true);
    command
}

async fn run(environment: &[(&str, &str)]) -> Output {
    let folder = TempDir::new().expect("a folder");
    let mut example = example(&folder, environment).await;
    example.output().await.expect("it runs")
}

fn assert_one_invoice_for_each_order(output: &Output) {
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = printed.lines().skip(1).collect();
    let expected = [
        "100 orders, after 10 kills of the worker",
        "0 orders without an invoice, 0 invoices too many",
    ];
    assert!(
        output.status.success() && lines == expected,
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn each_order_has_one_invoice_without_a_broker() {
    assert_one_invoice_for_each_order(&run(&[]).await);
}

#[tokio::test]
#[cfg_attr(not(feature = "nats-server"), ignore = "needs NATS: run scripts/test")]
async fn each_order_has_one_invoice_by_way_of_nats() {
    assert_one_invoice_for_each_order(&run(&[("NATS_URL", &nats::url())]).await);
}

/// Otherwise it would come again for ever, between those that can be consumed.
#[tokio::test]
#[cfg_attr(not(feature = "nats-server"), ignore = "needs NATS: run scripts/test")]
async fn what_is_no_message_of_the_orders_is_set_aside() {
    let folder = TempDir::new().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    // Of its own: whoever works at the other one takes what is told there.
    let _server = nats::Server::start(port, folder.path());
    let url = format!("nats://127.0.0.1:{port}");
    let context = nats::connect(&url).await;
    nats::create_stream(&context, "ready", Duration::ZERO).await;
    let mut worker = example(&folder, &[("NATS_URL", &url)]).await;
    let worker = worker.arg("work").stderr(Stdio::null()).spawn();
    let _worker = worker.expect("it runs");

    let set_aside = async {
        while !publish(&context, "no order").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let stream = context.get_stream("orders").await.expect("the stream");
        let mut consumer: PullConsumer = loop {
            if let Ok(consumer) = stream.get_consumer("billing").await {
                break consumer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        while consumer
            .info()
            .await
            .expect("facts")
            .ack_floor
            .stream_sequence
            == 0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stream
    };
    let stream = tokio::time::timeout(Duration::from_secs(30), set_aside).await;
    let kept = nats::nth(&stream.expect("it is set aside"), 1).await;
    assert_eq!(&kept.payload[..], b"no order");
}

/// Says whether a stream has taken it.
async fn publish(context: &Context, payload: &'static str) -> bool {
    match context.publish("order.paid", payload.into()).await {
        Ok(taken) => taken.await.is_ok(),
        Err(_) => false,
    }
}
