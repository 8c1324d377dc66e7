//! Canonical form of a JSON number: its exact decimal value, taken from its
//! text.
//!
//! The form is `0`, or the sign, the digits without zeros at either end, and
//! `e` with the power of ten where it is not zero: `-12.50` is `-125e-1`, and
//! `1`, `1.0`, `10e-1` are `1`. No floating point: amounts that are the same
//! `f64` stay apart.

/// Writes the canonical form of the number that begins at `at`, and returns the
/// position after it. `None`: there is no number, or its power of ten is beyond
/// `i64`.
pub(super) fn write(text: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let negative = text.get(at) == Some(&b'-');
    let integer = digits(text, at + usize::from(negative))?;
    if integer.len() > 1 && integer[0] == b'0' {
        return None;
    }
    let mut end = at + usize::from(negative) + integer.len();
    let mut fraction: &[u8] = &[];
    if text.get(end) == Some(&b'.') {
        fraction = digits(text, end + 1)?;
        end += 1 + fraction.len();
    }
    let mut power: Option<&[u8]> = None;
    if let Some(b'e' | b'E') = text.get(end) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let length = digits(text, end + 1 + sign)?.len();
        power = Some(&text[end + 1..][..sign + length]);
        end += 1 + sign + length;
    }

    let mut exponent = -i64::try_from(fraction.len()).ok()?;
    let mut significant = [integer, fraction];
    // Zeros at the end, the last digits first.
    for part in significant.iter_mut().rev() {
        let kept = part.iter().rposition(|&digit| digit != b'0');
        let kept = kept.map_or(0, |last| last + 1);
        exponent = exponent.checked_add_unsigned((part.len() - kept) as u64)?;
        *part = &part[..kept];
        if kept > 0 {
            break;
        }
    }
    for part in &mut significant {
        let zeros = part.iter().take_while(|&&digit| digit == b'0').count();
        *part = &part[zeros..];
        if !part.is_empty() {
            break;
        }
    }
    if significant.iter().all(|part| part.is_empty()) {
        out.push(b'0');
        return Some(end);
    }

    if let Some(power) = power {
        exponent = exponent.checked_add(parse(power)?)?;
    }
    if negative {
        out.push(b'-');
    }
    for part in significant {
        out.extend_from_slice(part);
    }
    if exponent != 0 {
        write_power(exponent, out);
    }
    Some(end)
}

/// Returns the digits that begin at `at`; there must be one.
#[inline]
fn digits(text: &[u8], at: usize) -> Option<&[u8]> {
    let rest = text.get(at..)?;
    let length = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    (length > 0).then(|| &rest[..length])
}

fn parse(power: &[u8]) -> Option<i64> {
    let power = std::str::from_utf8(power).ok()?;
    power.parse().ok()
}

fn write_power(exponent: i64, out: &mut Vec<u8>) {
    out.push(b'e');
    if exponent < 0 {
        out.push(b'-');
    }
    let mut rest = exponent.unsigned_abs();
    let start = out.len();
    while rest > 0 {
        out.push(b"0123456789"[(rest % 10) as usize]);
        rest /= 10;
    }
    out[start..].reverse();
}
