//! The load generator: a process of its own that speaks HTTP/1.1 over loopback with as little
//! work as it can, since it shares the cores with what it measures.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::try_join;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use uuid::Uuid;

use crate::Failure;
use crate::payments::ACCOUNTS;

/// What a load process does.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    pub port: u16,
    pub path: String,
    pub connections: usize,
    pub seconds: f64,
    pub keys: Keys,
    /// Which round this is, counted from zero.
    pub round: usize,
    /// Clients that repeat one request beside the measured ones.
    pub storm: Option<Storm>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum Keys {
    /// A new key for each request.
    Fresh,
    /// Keys that are finished before the clock starts.
    Replay,
    /// Keys that were stored beforehand: `fill-<number>` below this one, which is a power of ten.
    /// Each is asked for about once in five rounds, so that the server has not lately seen it,
    /// however many there are.
    Stored(u64),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Storm {
    pub path: String,
    pub clients: usize,
    /// Between a client's requests.
    pub pause_ms: u64,
}

/// What a load process saw.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Seen {
    pub per_second: f64,
    /// All requests, also those before the clock started.
    pub sent: u64,
    /// What the measurement adds: the processor's time of each of them, server and database.
    #[serde(skip)]
    pub cpu_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub statuses: BTreeMap<u16, u64>,
    pub storm_statuses: BTreeMap<u16, u64>,
}

impl Seen {
    /// How many answers were no 2xx.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.statuses
            .iter()
            .filter(|(status, _)| !(200..300).contains(*status))
            .map(|(_, n)| n)
            .sum()
    }
}

impl Plan {
    /// Runs the plan in a process of its own, and its storm in another: the one that measures must
    /// not wait for its own storm.
    ///
    /// # Errors
    /// When a process fails.
    pub async fn run(&self) -> Result<Seen, Failure> {
        let load = self.process("load");
        if self.storm.is_none() {
            return load.await;
        }
        let (seen, storm_statuses) = try_join(load, self.process("storm")).await?;
        Ok(Seen {
            storm_statuses,
            ..seen
        })
    }

    /// Runs a command of this program with the plan, and reads what it saw.
    async fn process<T: DeserializeOwned>(&self, command: &str) -> Result<T, Failure> {
        let output = Command::new(std::env::current_exe()?)
            .args([command, &serde_json::to_string(self)?])
            .stderr(std::process::Stdio::inherit())
            .output()
            .await?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Before it counts, a load process lets caches fill.
const WARM_UP: Duration = Duration::from_millis(150);

/// Spreads consecutive numbers over all keys, each once: it has no factor in common with a power
/// of ten.
const SPREAD: u64 = 7919;

/// How many finished keys a replay picks from.
const REPLAYED: usize = 256;

/// Runs a plan in this process.
///
/// # Errors
/// When the server hangs up.
pub async fn generate(plan: Plan) -> Result<Seen, Failure> {
    let cookie = session(plan.port).await?;
    let finished: Vec<(i64, String)> = (0..REPLAYED)
        .map(|_| (account(), Uuid::new_v4().to_string()))
        .collect();
    if matches!(plan.keys, Keys::Replay) {
        let mut client = Client::connect(plan.port, &plan.path, &cookie).await?;
        for (account, key) in &finished {
            client.post(*account, key).await?;
        }
    }
    let counts_from = Instant::now() + WARM_UP;
    let until = counts_from + Duration::from_secs_f64(plan.seconds);

    let measured: Vec<_> = (0..plan.connections)
        .map(|number| {
            let (port, path, keys) = (plan.port, plan.path.clone(), plan.keys);
            let finished = finished.clone();
            let cookie = cookie.clone();
            tokio::spawn(async move {
                let mut client = Client::connect(port, &path, &cookie).await?;
                let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
                let mut took = Vec::with_capacity(1 << 16);
                let (mut turn, mut sent) = (number, 0);
                loop {
                    let begun = Instant::now();
                    if begun >= until {
                        return Ok::<_, Failure>((statuses, took, sent));
                    }
                    turn += 1;
                    let status = match keys {
                        Keys::Fresh => {
                            client
                                .post(
                                    account(),
                                    Uuid::new_v4()
                                        .as_hyphenated()
                                        .encode_lower(&mut Uuid::encode_buffer()),
                                )
                                .await?
                        }
                        Keys::Replay => {
                            let (account, key) = &finished[turn % REPLAYED];
                            client.post(*account, key).await?
                        }
                        Keys::Stored(count) => {
                            let nth = count / 5 * plan.round as u64 + turn as u64;
                            let key = nth * SPREAD % count;
                            client.post(0, &format!("fill-{key}")).await?
                        }
                    };
                    sent += 1;
                    if begun >= counts_from {
                        took.push(begun.elapsed().as_nanos() as u64);
                        *statuses.entry(status).or_default() += 1;
                    }
                }
            })
        })
        .collect();

    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    let (mut took, mut sent) = (Vec::new(), 0);
    for client in measured {
        let (of_client, took_of_client, sent_by_client) = client.await??;
        sent += sent_by_client;
        took.extend(took_of_client);
        for (status, count) in of_client {
            *statuses.entry(status).or_default() += count;
        }
    }
    took.sort_unstable();
    let quantile = |part: f64| {
        took.get((took.len() as f64 * part) as usize)
            .map_or(f64::NAN, |&ns| ns as f64 / 1000.0)
    };
    Ok(Seen {
        per_second: took.len() as f64 / plan.seconds,
        sent,
        cpu_us: 0.0,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        statuses,
        storm_statuses: BTreeMap::new(),
    })
}

/// Runs a plan's storm in this process, and counts the answers by their status.
///
/// # Errors
/// When the plan has none, or the server hangs up.
pub async fn storm(plan: Plan) -> Result<BTreeMap<u16, u64>, Failure> {
    let storm = plan.storm.ok_or("the plan has no storm")?;
    let until = Instant::now() + WARM_UP + Duration::from_secs_f64(plan.seconds);
    let pause = Duration::from_millis(storm.pause_ms);
    let key = Uuid::new_v4().to_string();
    let clients: Vec<_> = (0..storm.clients)
        .map(|_| {
            let (path, key) = (storm.path.clone(), key.clone());
            tokio::spawn(async move {
                let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
                let mut client = Client::connect(plan.port, &path, "none=0").await?;
                while Instant::now() < until {
                    *statuses.entry(client.post(1, &key).await?).or_default() += 1;
                    tokio::time::sleep(pause).await;
                }
                Ok::<_, Failure>(statuses)
            })
        })
        .collect();
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    for client in clients {
        for (status, count) in client.await?? {
            *statuses.entry(status).or_default() += count;
        }
    }
    Ok(statuses)
}

/// The cookie of a new session, where the application has sessions.
async fn session(port: u16) -> Result<String, Failure> {
    let mut client = Client::connect(port, "/session", "none=0").await?;
    client.post(0, "session").await?;
    let answer = String::from_utf8_lossy(&client.answer);
    let cookie = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    let pair = cookie.and_then(|cookie| cookie.split(';').next());
    Ok(pair.unwrap_or("none=0").to_owned())
}

fn account() -> i64 {
    (Uuid::new_v4().as_u64_pair().1 % ACCOUNTS.unsigned_abs()).cast_signed()
}

/// One connection that is kept open.
struct Client {
    stream: TcpStream,
    path: String,
    cookie: String,
    request: Vec<u8>,
    answer: Vec<u8>,
}

const BODY: &str = r#"{"amount": 1250, "currency": "EUR", "source": "card_ok"}"#;

impl Client {
    async fn connect(port: u16, path: &str, cookie: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            path: path.to_owned(),
            cookie: cookie.to_owned(),
            request: Vec::new(),
            answer: Vec::new(),
        })
    }

    async fn post(&mut self, account: i64, key: &str) -> Result<u16, Failure> {
        use std::io::Write;
        self.request.clear();
        write!(
            self.request,
            "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             x-account: {account}\r\nidempotency-key: {key}\r\ncontent-length: {}\r\n\
             authorization: Bearer {account}\r\ncookie: {}\r\n\r\n{BODY}",
            self.path,
            BODY.len(),
            self.cookie,
        )?;
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the server hung up".into());
            }
            let Some(head) = self.answer.windows(4).position(|end| end == b"\r\n\r\n") else {
                continue;
            };
            let text = std::str::from_utf8(&self.answer[..head])?;
            let length: usize = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(Ok(0), str::parse)?;
            if self.answer.len() >= head + 4 + length {
                return Ok(text[9..12].parse()?);
            }
        }
    }
}
