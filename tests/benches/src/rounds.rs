//! Rounds: everything that is compared takes its turn in each of them, in an order that rotates.

use crate::load::{Keys, Plan, Seen};
use crate::serve::Server;
use crate::{Failure, cpu};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub rounds: usize,
    pub seconds: f64,
}

/// One thing that is measured: a plan against a running server.
#[derive(Debug)]
pub struct Contender<'a> {
    pub name: String,
    pub plan: Plan,
    /// What was seen, one for each round.
    pub seen: Vec<Seen>,
    server: &'a Server,
}

impl<'a> Contender<'a> {
    #[must_use]
    pub fn new(name: &str, server: &'a Server, path: &str, keys: Keys) -> Self {
        Self {
            name: name.to_owned(),
            plan: Plan {
                port: server.port,
                path: path.to_owned(),
                connections: 1,
                seconds: 1.0,
                keys,
                round: 0,
                storm: None,
            },
            seen: Vec::new(),
            server,
        }
    }

    /// The median of a figure over the rounds.
    pub fn median(&self, figure: impl Fn(&Seen) -> f64) -> f64 {
        median(self.seen.iter().map(figure))
    }
}

/// Lets each contender run once in each round, over so many connections.
///
/// # Errors
/// When a load process fails.
pub async fn alternate(
    contenders: &mut [Contender<'_>],
    connections: usize,
    effort: Effort,
) -> Result<(), Failure> {
    for round in 0..effort.rounds {
        let count = contenders.len();
        for turn in 0..count {
            let contender = &mut contenders[(round + turn) % count];
            contender.plan.connections = connections;
            contender.plan.seconds = effort.seconds;
            contender.plan.round = round;
            let before = cpu::nanoseconds(contender.server).await?;
            let mut seen = contender.plan.run().await?;
            let took = cpu::nanoseconds(contender.server).await? - before;
            seen.cpu_us = took as f64 / 1000.0 / seen.sent as f64;
            if seen.failed() > 0 {
                eprintln!("{}: {:?}", contender.name, seen.statuses);
            }
            contender.seen.push(seen);
        }
    }
    Ok(())
}

/// The median over the rounds.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values
        .into_iter()
        .filter(|value| value.is_finite())
        .collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => f64::midpoint(values[even / 2 - 1], values[even / 2]),
    }
}

/// The median of the ratios within each round.
#[must_use]
pub fn ratio(of: &[Seen], to: &[Seen], figure: impl Fn(&Seen) -> f64) -> f64 {
    median(of.iter().zip(to).map(|(of, to)| figure(of) / figure(to)))
}
