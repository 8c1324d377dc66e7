//! Durations, written with their unit.

use std::time::Duration;

use syn::{Expr, ExprLit, Lit, LitStr, UnOp};

use crate::diag::Mistakes;
use crate::names::Name;

/// The `ttl` of a handler that does not say.
pub(crate) const DEFAULT_TTL: Duration = DAY;

/// The shortest and the longest value of an option.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    min: Duration,
    max: Duration,
    /// Completes "`ttl` is zero; …".
    why: &'static str,
}

const DAY: Duration = Duration::from_hours(24);

pub(crate) const TTL: Limits = Limits {
    min: Duration::from_secs(1),
    max: Duration::from_hours(9600),
    why: "a response must be kept for at least 1 second to be replayed",
};

pub(crate) const WAIT: Limits = Limits {
    min: Duration::ZERO,
    max: DAY,
    why: "a duplicate may also not wait at all",
};

// Postgres counts its time-outs in 32-bit milliseconds.
pub(crate) const TIMEOUT: Limits = Limits {
    min: Duration::from_millis(1),
    max: DAY,
    why: "the handler would never finish in time",
};

pub(crate) const LEASE: Limits = Limits {
    min: Duration::from_secs(1),
    max: DAY,
    why: "a claim must be held for at least 1 second to be renewed in time",
};

/// Reads a duration such as `"1h 30m"`.
pub(crate) fn duration(
    value: &Expr,
    name: Name,
    limits: Limits,
    mistakes: &Mistakes,
) -> Option<Duration> {
    let example = format!("write `{}`", name.example);
    let Some(text) = string(value) else {
        let quoted = |text: &str, what: String, help: &str| {
            // What would be refused next is said at once.
            match parse_duration(text, name, limits) {
                Ok(_) => (what, help.to_owned()),
                Err((what, help)) => (what, help.unwrap_or_else(|| example.clone())),
            }
        };
        let (what, help) = match number(value) {
            Some((_, _, true)) => (format!("`{name}` is negative"), example),
            Some((digits, "", _)) => {
                let text = format!("{digits}s");
                let help = format!("write `{name} = \"{text}\"` for seconds");
                quoted(&text, format!("`{name}` has no unit"), &help)
            }
            Some((digits, unit, _)) => {
                let text = format!("{digits}{unit}");
                let help = format!("quote it: `{name} = \"{text}\"`");
                quoted(&text, format!("`{name}` takes a string"), &help)
            }
            None => (format!("`{name}` takes a duration in quotes"), example),
        };
        mistakes.add(value, what, help);
        return None;
    };
    match parse_duration(&text.value(), name, limits) {
        Ok(duration) => Some(duration),
        Err((what, help)) => {
            mistakes.add(text, what, help.unwrap_or(example));
            None
        }
    }
}

/// The help is absent where the option's example says enough.
fn parse_duration(
    text: &str,
    name: Name,
    limits: Limits,
) -> Result<Duration, (String, Option<String>)> {
    use humantime::DurationError as Error;

    let too_long = || {
        let days = limits.max.as_secs() / DAY.as_secs();
        let plural = if days == 1 { "" } else { "s" };
        let what = format!("`{name}` is too long; it may be at most {days} day{plural}");
        (what, Some(format!("write at most `{name} = \"{days}d\"`")))
    };
    let text = text.trim();
    if text.starts_with('-') {
        return Err((format!("`{name}` is negative"), None));
    }
    let duration = humantime::parse_duration(text).map_err(|error| match error {
        Error::Empty => (format!("`{name}` is empty"), None),
        Error::UnknownUnit { unit, .. } if unit.is_empty() && text == "0" => zero(name, limits),
        Error::UnknownUnit { unit, value, .. } if unit.is_empty() => (
            format!("`{name}` has no unit"),
            Some(format!("write `{name} = \"{value}s\"` for seconds")),
        ),
        Error::UnknownUnit { unit, value, .. } => {
            let lower = unit.to_lowercase();
            let known = humantime::parse_duration(&format!("{value}{lower}")).is_ok();
            let help = known.then(|| format!("write `{name} = \"{value}{lower}\"`"));
            let what = format!(
                "unknown unit `{unit}` in `{name}`; the units are `ms`, `s`, `m`, `h`, `d`, and `w`"
            );
            (what, help)
        }
        Error::NumberOverflow => too_long(),
        _ => (
            format!("`{name}` is no duration; it takes numbers with units"),
            None,
        ),
    })?;
    if duration > limits.max {
        Err(too_long())
    } else if duration < limits.min {
        if duration.is_zero() {
            Err(zero(name, limits))
        } else {
            Err((format!("`{name}` is too short; {}", limits.why), None))
        }
    } else {
        Ok(duration)
    }
}

fn zero(name: Name, limits: Limits) -> (String, Option<String>) {
    (format!("`{name}` is zero; {}", limits.why), None)
}

pub(crate) fn string(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// Splits an unquoted number into digits, suffix, and sign: `24h`, `-5`, `1.5d`.
pub(crate) fn number(value: &Expr) -> Option<(&str, &str, bool)> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => Some((number.base10_digits(), number.suffix(), false)),
        Expr::Lit(ExprLit {
            lit: Lit::Float(number),
            ..
        }) => Some((number.base10_digits(), number.suffix(), false)),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            number(&unary.expr).map(|(digits, unit, _)| (digits, unit, true))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    fn ttl(text: &str) -> Result<Duration, String> {
        parse_duration(text, names::TTL, TTL).map_err(|(what, _)| what)
    }

    #[test]
    fn durations_have_units_and_limits() {
        assert_eq!(ttl("1h 30m"), Ok(Duration::from_mins(90)));
        assert_eq!(ttl("400d"), Ok(TTL.max));
        assert_eq!(ttl("1s"), Ok(TTL.min));
        for (text, what) in [
            ("", "`ttl` is empty"),
            ("24", "`ttl` has no unit"),
            ("-1h", "`ttl` is negative"),
            ("401d", "`ttl` is too long; it may be at most 400 days"),
            (
                "999999999999999999999999d",
                "`ttl` is too long; it may be at most 400 days",
            ),
            ("soon", "`ttl` is no duration; it takes numbers with units"),
        ] {
            assert_eq!(ttl(text), Err(what.to_owned()), "{text}");
        }
        assert!(ttl("0s").is_err_and(|what| what.starts_with("`ttl` is zero")));
        assert!(ttl("5ms").is_err_and(|what| what.starts_with("`ttl` is too short")));
        assert!(ttl("1fortnight").is_err_and(|what| what.starts_with("unknown unit")));
    }

    #[test]
    fn code_of_a_value_keeps_its_spelling() {
        let value: Expr = syn::parse_str("24h").expect("a literal");
        assert_eq!(crate::diag::code(&value), "24h");
        assert_eq!(number(&value), Some(("24", "h", false)));
    }
}
