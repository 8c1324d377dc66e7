use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::Serialize;

use super::{
    super::json::canonical,
    Fingerprint, Random, of_json,
    reference::Value,
    spelling::{change, spell},
    values::{few_values, values},
};

fn assert_equal(texts: &[&str]) {
    for text in texts {
        assert!(canonical(text.as_bytes()).is_some(), "{text}");
        assert_eq!(of_json(texts[0]), of_json(text), "{} and {text}", texts[0]);
    }
}

fn assert_distinct(texts: &[&str]) {
    for (index, left) in texts.iter().enumerate() {
        for right in &texts[..index] {
            assert_ne!(of_json(left), of_json(right), "{left} and {right}");
        }
    }
}

fn assert_counts_as_raw_bytes(text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    let spaced = [text, b" "].concat();
    assert_eq!(canonical(text), None, "{}", text.escape_ascii());
    assert_ne!(of_json(text), of_json(spaced), "{}", text.escape_ascii());
}

#[test]
fn the_canonical_form_is_as_described() {
    for (text, form) in [
        ("[null, true, false]", "[n,t,f,]"),
        (r#"{"b": [], "a": {}}"#, r#"{"a"{}"b"[]}"#),
        ("[-12.50, 1200, 0.0]", "[-125e-1,12e2,0,]"),
        (
            r#""\\ \" \/ \u005C \u0022 \u000a""#,
            "\"\\\\ \\\" / \\\\ \\\" \n\"",
        ),
    ] {
        let written = canonical(text.as_bytes()).expect("it is JSON");
        assert_eq!(String::from_utf8_lossy(&written), form);
    }
}

#[test]
fn numbers_of_the_same_value_are_equal() {
    assert_equal(&["1", "1.0", "1e0", "10e-1", "0.1e1", "0.001E+3", "1.000e000"]);
    assert_equal(&["0", "-0", "0.0", "-0.0", "0e5", "0E-99999999999999999999"]);
    assert_equal(&["100", "1e2", "1.00e+2", "1000e-1"]);
    assert_equal(&["-12.50", "-12.5", "-125e-1", "-0.125e2"]);
    assert_equal(&["1e-9223372036854775808", "1.0e-9223372036854775808"]);
}

#[test]
fn numbers_of_different_values_are_not_equal_however_close() {
    assert_distinct(&["9007199254740992", "9007199254740993"]);
    assert_distinct(&["18446744073709551615", "18446744073709551614"]);
    assert_distinct(&["100000000000000000001", "100000000000000000002", "1e20"]);
    assert_distinct(&["0.1", "0.1000000000000000055", "0.10000000000000001"]);
    assert_distinct(&["1", "-1", "10", "1e-1", "1e1000", "1e1001", "0", "\"1\""]);
    assert_distinct(&["1e9223372036854775807", "1e9223372036854775808", "1e-1"]);
    assert_distinct(&["[1,2]", "[12]", "[1,2,0]", "[1e2]", "[1,[2]]"]);
}

#[test]
fn strings_are_compared_after_their_escapes() {
    assert_equal(&["\"A/\"", r#""\u0041\/""#, r#""\u0041/""#]);
    assert_equal(&["\"\u{1f600}é\"", r#""\ud83d\ude00\u00E9""#]);
    assert_equal(&[
        r#""\b\f\n\r\t\"\\""#,
        r#""\u0008\u000c\u000A\u000d\u0009\u0022\u005c""#,
    ]);
    assert_equal(&[r#"{"a":1,"b":2}"#, r#"{"\u0062":2,"\u0061":1}"#]);
    // Composed and decomposed characters are different strings.
    assert_distinct(&["\"\u{e9}\"", "\"e\u{301}\""]);
    assert_distinct(&[
        r#""\"""#,
        r#""\\""#,
        r#""\\\"""#,
        r#""\\n""#,
        r#""\n""#,
        r#""n""#,
    ]);
}

#[test]
fn values_that_look_alike_are_not_equal() {
    assert_distinct(&[
        "null",
        "{}",
        "[]",
        "\"\"",
        "0",
        "false",
        "[null]",
        r#"{"a":null}"#,
    ]);
    assert_distinct(&[r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#, r#"["a",{"b":1}]"#]);
    assert_distinct(&[
        r#"[["a"],"b"]"#,
        r#"["a",["b"]]"#,
        r#"[["a","b"]]"#,
        r#"["a","b"]"#,
    ]);
    assert_distinct(&[
        r#"{"a":"b"}"#,
        r#"{"b":"a"}"#,
        r#"{"a\"b\"":1}"#,
        r#"{"a":"b","":1}"#,
    ]);
}

#[test]
fn ambiguous_and_broken_texts_count_as_raw_bytes() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"a":100}"#,
        r#"{"b":1,"a":2,"\u0062":3}"#,
        r#"{"x":[{"b":1,"a":2,"b":1}]}"#,
        r#""\ud800""#,
        r#""\ud800x""#,
        r#""\ud800\u0041""#,
        r#""\udc00\ud800""#,
        "1e9223372036854775808",
        "10e9223372036854775807",
        "1e-99999999999999999999",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "nul",
        "[1,]",
        "[1 2]",
        "[",
        "]",
        r#"{"a"}"#,
        r#"{"a":1,}"#,
        "{a:1}",
        r#"{"a":1]"#,
        "1 2",
        "\"",
        r#""\x""#,
        r#""\u12g4""#,
        r#""\u+123""#,
        "\"\n\"",
        "\"\u{0}\"",
        "\u{feff}1",
        "",
    ] {
        assert_counts_as_raw_bytes(text);
    }
    assert_counts_as_raw_bytes(b"\"\xff\"");
    assert_counts_as_raw_bytes(b"\"\\n\xc3\"");
    assert_counts_as_raw_bytes(b"\"12345678\xc3\"");
}

#[test]
fn depth_is_bounded() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(canonical(nested(128).as_bytes()).is_some());
    assert_counts_as_raw_bytes(nested(129));
    let nested = |depth| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    assert!(canonical(nested(128).as_bytes()).is_some());
    assert_counts_as_raw_bytes(nested(129));
}

#[test]
fn every_byte_of_a_string_is_looked_at_wherever_it_stands() {
    for length in 0..40 {
        for at in 0..length {
            for (byte, plain) in [(b'\n', false), (0, false), (0xff, false), (0x7f, true)] {
                let mut text = vec![b'a'; length];
                text[at] = byte;
                let text = [b"\"", &text[..], b"\""].concat();
                assert_eq!(canonical(&text).is_some(), plain, "{}", text.escape_ascii());
            }
        }
    }
}

#[test]
fn large_arrays_and_objects_are_equal_in_any_order_of_members_and_nothing_else() {
    let member = |index: usize| format!("\"{index:04}\":{{\"b\":[1,2],\"a\":\"{index}\"}}");
    let object = |members: Vec<String>| format!("[{{{}}},1]", members.join(","));
    let sorted: Vec<_> = (0..5_000).map(member).collect();
    let mut shuffled = sorted.clone();
    Random::new(1).shuffle(&mut shuffled);
    let mut swapped = sorted.clone();
    swapped[3_000] = swapped[3_000].replace("[1,2]", "[2,1]");
    let mut twice = sorted.clone();
    twice.push(member(0));

    let sorted = object(sorted);
    assert!(sorted.len() > 64 * 1024);
    assert_equal(&[&sorted, &object(shuffled), &sorted.replace(',', " ,\n")]);
    assert_distinct(&[&sorted, &object(swapped)]);
    assert_counts_as_raw_bytes(object(twice));
}

fn of<T: Serialize>(value: &T) -> Fingerprint {
    Fingerprint::of_value(value).expect("it is JSON")
}

#[test]
fn values_are_equal_where_their_json_is() {
    let pairs = [("amount", 1), ("currency", 2), ("source", 3), ("x", 4)];
    let ordered = of(&BTreeMap::from(pairs));
    for _ in 0..8 {
        assert_eq!(ordered, of(&HashMap::from(pairs)));
    }
    assert_ne!(of(&(500, "usd")), of(&(500, "eur")));
    assert_ne!(of(&(500, "usd")), of(&("usd", 500)));
    assert_ne!(of(&("ab", "c")), of(&("a", "bc")));
    assert_ne!(of(&u64::MAX), of(&(u64::MAX - 1)));
    assert_ne!(of(&"1"), of_json("\"1\""));
    assert!(Fingerprint::of_value(&HashMap::from([((1, 2), 3)])).is_err());
}

/// Above the limit for what is kept inline, as often as below it.
fn sized(value: Value, large: bool) -> Value {
    if !large {
        return value;
    }
    Value::Array(vec![value, Value::String("x".repeat(1_100))])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn no_spelling_of_a_value_changes_it(value in values(), large: bool, seeds: [u64; 2]) {
        let value = sized(value, large);
        let [one, other] = seeds.map(|seed| spell(&value, &mut Random::new(seed)));
        prop_assert!(canonical(one.as_bytes()).is_some(), "{one}");
        prop_assert_eq!(of_json(&one), of_json(&other), "{} and {}", one, other);
    }

    #[test]
    fn any_change_of_a_value_changes_it(value in values(), large: bool, seed: u64) {
        let random = &mut Random::new(seed);
        let value = sized(value, large);
        let mut changed = value.clone();
        change(&mut changed, random);
        prop_assert_ne!(&value, &changed);
        let (one, other) = (spell(&value, random), spell(&changed, random));
        prop_assert_ne!(of_json(&one), of_json(&other), "{} and {}", one, other);
    }

    #[test]
    fn two_values_are_equal_exactly_when_they_are(one in few_values(), other in few_values(), seed: u64) {
        let random = &mut Random::new(seed);
        let equal = of_json(spell(&one, random)) == of_json(spell(&other, random));
        prop_assert_eq!(equal, one == other);
    }
}
