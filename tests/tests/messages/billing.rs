//! The example of billing, as a reader runs it.

use std::process::Output;

use idem_tests::broker::nats;
use idem_tests::process::build;
use tempfile::TempDir;
use tokio::process::Command;

async fn run(environment: &[(&str, &str)]) -> Output {
    let program = build("example-billing", "example-billing").await;
    let folder = TempDir::new().expect("a folder");
    let mut command = Command::new(program);
    command
        .current_dir(folder.path())
        .env_remove("DATABASE_URL")
        .env_remove("NATS_URL")
        .envs(environment.iter().copied())
        .kill_on_drop(true);
    command.output().await.expect("it runs")
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
