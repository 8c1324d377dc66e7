//! The load: every order twice, a worker that is killed all the time, and the count afterwards.

use std::env;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use idem_runtime::client::{Operation, RetryPolicy};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::{App, Failure, serve};

const ORDERS: usize = 100;

pub(crate) async fn run(app: App) -> Result<(), Failure> {
    let orders = "select count(*) from orders";
    let before = count(&app, orders).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/orders", listener.local_addr()?);
    tokio::spawn(serve(app.clone(), listener));

    println!("places {ORDERS} orders, each of them twice");
    // The keys of this run are no other's.
    let run = SystemTime::UNIX_EPOCH.elapsed()?.as_millis();
    let http = reqwest::Client::new();
    let mut worker = start_worker()?;
    let mut kills = 0;
    for order in 1..=ORDERS {
        let key = format!("{run}-{order}");
        let (first, second) = tokio::try_join!(place(&http, &url, &key), place(&http, &url, &key))?;
        if first != second {
            return Err(format!("one order became two: {first} and {second}").into());
        }
        if order % 10 == 0 {
            worker.kill().await?;
            worker = start_worker()?;
            kills += 1;
        }
        sleep(Duration::from_millis(50)).await;
    }
    // What is missing in the end shows below.
    timeout(Duration::from_secs(30), until_all_have_invoices(&app))
        .await
        .ok();
    worker.kill().await?;

    let made = count(&app, orders).await? - before;
    let (without, several) = (count(&app, WITHOUT).await?, count(&app, SEVERAL).await?);
    println!("{made} orders, after {kills} kills of the worker");
    println!("{without} orders without an invoice, {several} invoices too many");
    if (without, several) != (0, 0) {
        return Err("an order has not exactly one invoice".into());
    }
    Ok(())
}

const WITHOUT: &str = "select count(*) from orders where id not in (select order_id from invoices)";
const SEVERAL: &str = "select count(*) - count(distinct order_id) from invoices";

async fn count(app: &App, sql: &'static str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(sql).fetch_one(&app.pool).await
}

/// Places an order, and returns its number. The client asks again until there is an answer.
async fn place(http: &reqwest::Client, url: &str, key: &str) -> Result<String, Failure> {
    let request = http.post(url).header("content-type", "application/json");
    let operation = Operation::with_key(request.body(r#"{"amount":500}"#), key)?;
    let reply = operation.send(&RetryPolicy::new()).await?;
    if reply.status() != 201 {
        return Err(format!("no order: {}", reply.status()).into());
    }
    Ok(reply.into_response().text().await?)
}

/// The relay and the consumer, in a process of their own that can be killed.
fn start_worker() -> Result<Child, Failure> {
    let mut command = Command::new(env::current_exe()?);
    let worker = command.arg("work").stdout(Stdio::null()).kill_on_drop(true);
    Ok(worker.spawn()?)
}

async fn until_all_have_invoices(app: &App) -> Result<(), Failure> {
    while count(app, WITHOUT).await? > 0 {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
