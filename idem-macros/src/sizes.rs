//! Sizes, written with their unit.

use syn::Expr;

use crate::diag::Mistakes;
use crate::names::Name;
use crate::units::{number, string};

const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// What a row can hold on every backend.
const MAX_SIZE: u64 = 512 << 20;

/// Reads a size such as `"1MiB"`.
pub(crate) fn size(value: &Expr, name: Name, mistakes: &Mistakes) -> Option<usize> {
    let example = format!("write `{}`", name.example);
    let read = match string(value) {
        Some(text) => parse_size(&text.value(), name),
        None => Err(match number(value) {
            Some((_, _, true)) => (format!("`{name}` is negative"), None),
            Some((digits, "", _)) => match parse_size(&format!("{digits}B"), name) {
                Ok(_) => no_unit(name, digits),
                Err(mistake) => mistake,
            },
            Some((digits, unit, _)) => match parse_size(&format!("{digits}{unit}"), name) {
                Ok(_) => {
                    let help = format!("quote it: `{name} = \"{digits}{unit}\"`");
                    (format!("`{name}` takes a string"), Some(help))
                }
                Err(mistake) => mistake,
            },
            None => (format!("`{name}` takes a size in quotes"), None),
        }),
    };
    match read {
        Ok(bytes) => Some(bytes),
        Err((what, help)) => {
            mistakes.add(value, what, help.unwrap_or(example));
            None
        }
    }
}

/// The help is absent where the option's example says enough.
fn parse_size(text: &str, name: Name) -> Result<usize, (String, Option<String>)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim();
    if digits.is_empty() || unit.starts_with(['.', '_']) {
        let what = format!("`{name}` is no size; it takes a whole number with a unit");
        return Err((what, None));
    }
    let known = |(sign, _): &&(&str, u64)| sign.eq_ignore_ascii_case(unit);
    let too_large = (
        format!("`{name}` is too large; it may be at most 512 MiB"),
        Some(format!("write at most `{name} = \"512MiB\"`")),
    );
    match (digits.parse::<u64>(), SIZES.iter().find(known)) {
        (Ok(0), _) => Err((
            format!("`{name}` is zero; no response would be stored"),
            None,
        )),
        (Ok(_), _) if unit.is_empty() => Err(no_unit(name, digits)),
        (Ok(_), None) => {
            let near = SIZES.iter().find(|(sign, _)| *sign == format!("{unit}iB"));
            let help = near.map(|(sign, _)| format!("write `{name} = \"{digits}{sign}\"`"));
            let what = format!(
                "unknown unit `{unit}` in `{name}`; the units are `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB`, and `GB`"
            );
            Err((what, help))
        }
        (Ok(number), Some((_, factor))) => match number.checked_mul(*factor) {
            Some(bytes) if bytes <= MAX_SIZE => usize::try_from(bytes).map_err(|_| too_large),
            _ => Err(too_large),
        },
        (Err(_), _) => Err(too_large),
    }
}

fn no_unit(name: Name, digits: &str) -> (String, Option<String>) {
    let help = format!("write `{name} = \"{digits}B\"` for bytes");
    (format!("`{name}` has no unit"), Some(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    #[test]
    fn sizes_have_units_and_limits() {
        let read = |text: &str| {
            let mistakes = Mistakes::new();
            let value = syn::parse_str(&format!("{text:?}")).expect("a literal");
            let size = size(&value, names::MAX_RESPONSE, &mistakes);
            let messages = mistakes.messages();
            assert_eq!(size.is_none(), messages.len() == 1, "{text}");
            size
        };
        assert_eq!(read("1MiB"), Some(1 << 20));
        assert_eq!(read("64 kib"), Some(64 << 10));
        assert_eq!(read("10MB"), Some(10_000_000));
        for text in [
            "",
            "MiB",
            "1",
            "0B",
            "1.5MiB",
            "1Mib/s",
            "1GiB",
            "99999999999999999999B",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
