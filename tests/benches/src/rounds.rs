//! Rounds: everything that is compared takes its turn in each of them, in an order that rotates.

use crate::Failure;
use crate::load::{Plan, Seen};

/// One thing that is measured: a plan against a running server.
#[derive(Debug)]
pub struct Contender {
    pub name: String,
    pub plan: Plan,
    /// What was seen, one for each round.
    pub seen: Vec<Seen>,
}

impl Contender {
    #[must_use]
    pub fn new(name: &str, plan: Plan) -> Self {
        Self {
            name: name.to_owned(),
            plan,
            seen: Vec::new(),
        }
    }
}

/// Lets each contender run once in each round.
///
/// # Errors
/// When a load process fails.
pub async fn alternate(contenders: &mut [Contender], rounds: usize) -> Result<(), Failure> {
    for round in 0..rounds {
        let count = contenders.len();
        for turn in 0..count {
            let contender = &mut contenders[(round + turn) % count];
            let seen = contender.plan.run().await?;
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
