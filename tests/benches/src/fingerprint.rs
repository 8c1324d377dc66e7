//! How fast a JSON body is hashed. The module of the library is private, so its source is
//! compiled in here.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::report;
use crate::rounds::median;
use source::{Fingerprint, FingerprintedRequest};

#[path = "../../../idem-runtime/src/fingerprint/mod.rs"]
#[allow(dead_code, clippy::all, clippy::pedantic)]
mod source;

/// Prints MB/s for bodies of several sizes.
///
/// # Errors
/// When a body is no JSON.
pub fn throughput(rounds: usize) -> Result<(), crate::Failure> {
    let mut rows = Vec::new();
    for (name, size) in [
        ("200 B", 200),
        ("2 KB", 2_000),
        ("200 KB", 200_000),
        ("1 MB", 1_000_000),
    ] {
        let body = Bytes::from(document(size));
        let value: Value = serde_json::from_slice(&body)?;
        drop(value);
        let ours = || {
            let request = FingerprintedRequest {
                method: "POST",
                target: "/payments",
                content_type: Some(b"application/json"),
                body: Some(&body),
            };
            black_box(Fingerprint::of_request(&request));
        };
        let canonicalizer = || {
            let value: Value = serde_json::from_slice(&body).unwrap_or_default();
            let text = serde_json_canonicalizer::to_vec(&value).unwrap_or_default();
            black_box(Sha256::digest(text));
        };
        let alone = || {
            black_box(Sha256::digest(&body));
        };
        let mut seen = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            seen[0].push(rate(body.len(), ours));
            seen[1].push(rate(body.len(), canonicalizer));
            seen[2].push(rate(body.len(), alone));
        }
        let against = |other: usize| median(seen[0].iter().zip(&seen[other]).map(|(a, b)| a / b));
        let mut row = vec![name.to_owned()];
        row.extend(
            seen.iter()
                .map(|seen| format!("{:.0}", median(seen.iter().copied()))),
        );
        row.extend([1, 2].map(|other| format!("{:.2}", against(other))));
        rows.push(row);
    }
    report::table(
        "Fingerprint of a JSON body, MB/s",
        &[
            "body",
            "idem",
            "serde_json_canonicalizer + sha2",
            "sha2 alone",
            "against canonicalizer",
            "against sha2",
        ],
        &rows,
    );
    Ok(())
}

fn rate(bytes: usize, work: impl Fn()) -> f64 {
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < Duration::from_millis(60) {
        for _ in 0..=(20_000 / bytes) {
            work();
            count += 1;
        }
    }
    count as f64 * bytes as f64 / begun.elapsed().as_secs_f64() / 1e6
}

/// An order with as many items as fit, written as a JavaScript client writes it: members in the
/// order of the form, no white space.
fn document(size: usize) -> String {
    let mut text = String::from(
        r#"{"order":"7f1c9b52-0d0e-4a87-9d2c-3f5a1f0a6c11","customer":{"name":"Zoë Müller","email":"zoe@example.com"},"items":["#,
    );
    let mut number = 0;
    loop {
        let item = format!(
            r#"{{"sku":"A-{number:06}","title":"Notebook, \"ruled\"","quantity":{},"price":{}.{:02},"gift":false}}"#,
            number % 7 + 1,
            number % 90 + 10,
            number % 100,
        );
        if number > 0 && text.len() + item.len() + 40 > size {
            break;
        }
        if number > 0 {
            text.push(',');
        }
        text += &item;
        number += 1;
    }
    text + r#"],"currency":"EUR","note":null}"#
}
