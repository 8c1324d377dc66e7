//! The ways to spell a value, and the ways to make another of it.

use std::fmt::Write as _;

use super::{
    Random,
    reference::{Decimal, Value},
};

/// Writes a value in one of its spellings.
pub(crate) fn spell(value: &Value, random: &mut Random) -> String {
    let mut text = String::new();
    write_value(value, random, &mut text);
    text
}

fn write_value(value: &Value, random: &mut Random, text: &mut String) {
    write_space(random, text);
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(bool) => text.push_str(if *bool { "true" } else { "false" }),
        Value::Number(number) => write_number(number, random, text),
        Value::String(string) => write_string(string, random, text),
        Value::Array(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write_value(element, random, text);
            }
            write_space(random, text);
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            random.shuffle(&mut members);
            text.push('{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write_space(random, text);
                write_string(name, random, text);
                write_space(random, text);
                text.push(':');
                write_value(member, random, text);
            }
            write_space(random, text);
            text.push('}');
        }
    }
    write_space(random, text);
}

fn write_space(random: &mut Random, text: &mut String) {
    text.push_str(random.pick(&["", "", " ", "\n  ", "\t\r\n"]));
}

fn write_string(string: &str, random: &mut Random, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '/' => "\\/",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            _ => "",
        };
        let must_escape = matches!(character, '"' | '\\' | '\0'..' ');
        match random.below(3) {
            0 if !short.is_empty() => text.push_str(short),
            1 if !must_escape => text.push(character),
            choice => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let unit = format!("{unit:04x}");
                    let unit = if choice == 1 {
                        unit.to_uppercase()
                    } else {
                        unit
                    };
                    write!(text, "\\u{unit}").expect("a string takes all");
                }
            }
        }
    }
    text.push('"');
}

/// Moves the point, and adds zeros where they do not count.
fn write_number(number: &Decimal, random: &mut Random, text: &mut String) {
    let Decimal {
        negative,
        integer,
        fraction,
    } = number;
    let zero = integer.is_empty() && fraction.is_empty();
    if *negative || (zero && random.below(2) == 0) {
        text.push('-');
    }
    let digits = format!("{integer}{fraction}");
    // Digits before the point, in the text and in the value.
    let point = random.below(digits.len() + 3);
    let power = i64::try_from(integer.len()).expect("short") - i64::try_from(point).expect("short");
    let padded = format!("{digits:0<point$}");
    let (before, after) = padded.split_at(point);
    let before = before.trim_start_matches('0');
    text.push_str(if before.is_empty() { "0" } else { before });
    let zeros = random.pick(&["", "0", "000"]);
    if !after.is_empty() || !zeros.is_empty() {
        write!(text, ".{after}{zeros}").expect("a string takes all");
    }
    if power != 0 || random.below(3) == 0 {
        let e = random.pick(&["e", "E"]);
        let sign = if power < 0 {
            "-"
        } else {
            random.pick(&["", "+"])
        };
        let zeros = random.pick(&["", "00"]);
        let power = power.unsigned_abs();
        write!(text, "{e}{sign}{zeros}{power}").expect("a string takes all");
    }
}

/// Changes a value in one place, so that it is another value.
pub(crate) fn change(value: &mut Value, random: &mut Random) {
    match value {
        Value::Array(elements) if !elements.is_empty() && random.below(4) > 0 => {
            let index = random.below(elements.len());
            change(&mut elements[index], random);
        }
        Value::Object(members) if !members.is_empty() && random.below(4) > 0 => {
            let index = random.below(members.len());
            let member = members.values_mut().nth(index).expect("within");
            change(member, random);
        }
        Value::Null => *value = Value::Bool(false),
        Value::Bool(bool) if random.below(2) == 0 => *bool = !*bool,
        Value::Bool(_) => *value = Value::Null,
        Value::Number(number) => match random.below(3) {
            0 => number.fraction.push('1'),
            1 => number.integer.insert(0, '1'),
            _ if number.integer.is_empty() && number.fraction.is_empty() => {
                *value = Value::String("0".to_owned());
            }
            _ => number.negative = !number.negative,
        },
        Value::String(string) => match random.below(3) {
            0 if string.pop().is_some() => {}
            1 => string.insert(0, '\0'),
            _ => string.push(' '),
        },
        Value::Array(elements) => match random.below(2) {
            0 if elements.pop().is_some() => {}
            _ => elements.push(Value::Null),
        },
        Value::Object(members) => match random.below(3) {
            0 if members.pop_first().is_some() => {}
            1 if !members.is_empty() => {
                let (name, member) = members.pop_last().expect("not empty");
                members.insert(name + "x", member);
            }
            _ => {
                members.insert("new".to_owned(), Value::Null);
            }
        },
    }
}
