//! Tables, as Markdown.

use std::fmt::Write;

use crate::rounds::{Contender, ratio};

/// Prints a comparison; the first contender is what the others are compared with.
pub fn compare(title: &str, contenders: &[Contender<'_>]) {
    let Some(first) = contenders.first() else {
        return;
    };
    let mut table = format!(
        "\n### {title}\n\n| | requests/s | p50 µs | p99 µs | throughput against {} | CPU µs | CPU of {} against it | failed |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
        first.name, first.name
    );
    for contender in contenders {
        let failed: u64 = contender.seen.iter().map(crate::load::Seen::failed).sum();
        // Writing into a string cannot fail.
        let _ = writeln!(
            table,
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.0} | {:.2} | {failed} |",
            contender.name,
            contender.median(|seen| seen.per_second),
            contender.median(|seen| seen.p50_us),
            contender.median(|seen| seen.p99_us),
            ratio(&contender.seen, &first.seen, |seen| seen.per_second),
            contender.median(|seen| seen.cpu_us),
            ratio(&first.seen, &contender.seen, |seen| seen.cpu_us),
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
