//! A second, slow way to tell whether two JSON texts denote the same value. The
//! grammar is `serde_json`'s; numbers are written out digit by digit.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Decimal),
    String(String),
    Array(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

/// The digits before and after the point, without zeros at the outer ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    pub(crate) integer: String,
    pub(crate) fraction: String,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    /// The text denotes no value, or more than one.
    NoValue,
    /// A number too long to be written out: no judgement.
    TooLong,
}

pub(crate) fn parse(text: &[u8]) -> Result<Value, Refusal> {
    read(text, 0)
}

fn read(text: &[u8], depth: usize) -> Result<Value, Refusal> {
    fn json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Refusal> {
        serde_json::from_slice(text).map_err(|_| Refusal::NoValue)
    }

    let raw: &RawValue = json(text)?;
    let text = raw.get().as_bytes();
    match text[0] {
        b'{' | b'[' if depth == 128 => Err(Refusal::NoValue),
        b'{' => {
            let Members(members) = json(text)?;
            let count = members.len();
            let members = members
                .into_iter()
                .map(|(name, value)| Ok((name, read(value.get().as_bytes(), depth + 1)?)))
                .collect::<Result<BTreeMap<_, _>, _>>()?;
            if members.len() < count {
                return Err(Refusal::NoValue);
            }
            Ok(Value::Object(members))
        }
        b'[' => {
            let elements: Vec<&RawValue> = json(text)?;
            elements
                .into_iter()
                .map(|element| read(element.get().as_bytes(), depth + 1))
                .collect::<Result<_, _>>()
                .map(Value::Array)
        }
        b'"' => json(text).map(Value::String),
        b'n' => Ok(Value::Null),
        b't' | b'f' => json(text).map(Value::Bool),
        _ => Decimal::new(raw.get()).map(Value::Number),
    }
}

impl Decimal {
    pub(crate) fn new(text: &str) -> Result<Self, Refusal> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (coefficient, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (integer, fraction) = coefficient.split_once('.').unwrap_or((coefficient, ""));
        let power: i64 = power.parse().map_err(|_| Refusal::TooLong)?;
        if power.unsigned_abs() > 5_000 {
            return Err(Refusal::TooLong);
        }

        let (mut integer, mut fraction) = (integer.to_owned(), fraction.to_owned());
        for _ in 0..power {
            if fraction.is_empty() {
                fraction.push('0');
            }
            integer.push(fraction.remove(0));
        }
        for _ in power..0 {
            fraction.insert(0, integer.pop().unwrap_or('0'));
        }
        let integer = integer.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        Ok(Self {
            negative: negative && !(integer.is_empty() && fraction.is_empty()),
            integer,
            fraction,
        })
    }
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(All)
    }
}
