//! Tables, as Markdown.

use std::fmt::Write;

use crate::rounds::{Contender, median, ratio};

/// Prints a comparison; the first contender is what the others are compared with.
pub fn compare(title: &str, contenders: &[Contender]) {
    let Some(first) = contenders.first() else {
        return;
    };
    let mut table = format!(
        "\n### {title}\n\n| | requests/s | p50 µs | p99 µs | throughput against {} | failed |\n|---|--:|--:|--:|--:|--:|\n",
        first.name
    );
    for contender in contenders {
        let of = |figure: fn(&crate::load::Seen) -> f64| median(contender.seen.iter().map(figure));
        let failed: u64 = contender.seen.iter().map(crate::load::Seen::failed).sum();
        // Writing into a string cannot fail.
        let _ = writeln!(
            table,
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} | {failed} |",
            contender.name,
            of(|seen| seen.per_second),
            of(|seen| seen.p50_us),
            of(|seen| seen.p99_us),
            ratio(&contender.seen, &first.seen, |seen| seen.per_second),
        );
    }
    print!("{table}");
}

/// Prints a table of text.
pub fn table(title: &str, head: &[&str], rows: &[Vec<String>]) {
    println!("\n### {title}\n\n| {} |", head.join(" | "));
    let numbers = vec!["--:"; head.len().saturating_sub(1)];
    println!("|---|{}|", numbers.join("|"));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}
