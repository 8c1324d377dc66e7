//! Bodies made to be expensive. Each test would take minutes if the work were
//! quadratic, so the limit is far above what a slow machine needs.

use std::time::{Duration, Instant};

use super::{super::json::canonical, FORM, JSON, of_body};

const SIZE: usize = 2 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(20);

fn assert_bounded(name: &str, content_type: &str, body: &str) {
    let start = Instant::now();
    of_body(content_type, body);
    let took = start.elapsed();
    assert!(took < LIMIT, "{name} took {took:?}");
}

fn assert_json(name: &str, sound: bool, text: &str) {
    assert_bounded(name, JSON, text);
    let form = canonical(text.as_bytes());
    assert_eq!(form.is_some(), sound, "{name}");
    let kept = form.map_or(0, |form| form.capacity());
    assert!(kept <= 2 * text.len() + 1024, "{name} keeps {kept} bytes");
}

fn filled(pattern: &str) -> String {
    pattern.repeat(SIZE / pattern.len())
}

#[test]
fn deep_nesting_with_members_out_of_order_is_bounded() {
    let deep = |depth: usize, leaf: &str| {
        let (open, close) = (r#"{"b":"#.repeat(depth), r#","a":0}"#.repeat(depth));
        format!("{open}{leaf}{close}")
    };
    assert_json(
        "one large leaf",
        true,
        &deep(128, &format!("\"{}\"", filled("x"))),
    );
    assert_json(
        "many",
        true,
        &format!("[{}1]", filled(&(deep(127, "1") + ","))),
    );
    assert_json(
        "many below the limit for digests",
        true,
        &format!("[{}1]", filled(&(deep(60, "1") + ","))),
    );
    assert_json("too deep", false, &deep(SIZE / 12, "1"));
    assert_json("brackets", false, &filled("["));
}

#[test]
fn many_tiny_members_are_bounded() {
    let members = |names: &mut dyn Iterator<Item = usize>| {
        let members: Vec<_> = names.map(|name| format!("\"{name:x}\":1")).collect();
        format!("{{{}}}", members.join(","))
    };
    let count = SIZE / 10;
    assert_json("ascending", true, &members(&mut (0..count)));
    assert_json("descending", true, &members(&mut (0..count).rev()));
    assert_json(
        "interleaved",
        true,
        &members(&mut (0..count).map(|i| i * 7919 % count)),
    );
    assert_json(
        "the same name at the ends",
        false,
        &members(&mut (0..count).chain([0])),
    );
    assert_json(
        "objects",
        true,
        &format!("[{}1]", filled("{\"b\":1,\"a\":1},")),
    );
    let prefix = "p".repeat(1_000);
    let names: Vec<_> = (0..2_000)
        .rev()
        .map(|i| format!("\"{prefix}{i}\":1"))
        .collect();
    assert_json(
        "long common prefixes",
        true,
        &format!("{{{}}}", names.join(",")),
    );
}

#[test]
fn long_scalars_are_bounded() {
    assert_json("digits", true, &filled("7"));
    assert_json("zeros before the point", true, &format!("1{}", filled("0")));
    assert_json(
        "zeros after the point",
        true,
        &format!("0.{}1", filled("0")),
    );
    assert_json("zeros only", true, &format!("0.{}", filled("0")));
    assert_json("power", false, &format!("1e{}", filled("7")));
    assert_json("zeros in the power", true, &format!("1e{}7", filled("0")));
    assert_json("tens", true, &format!("[{}1]", filled("10,")));
    assert_json("escapes", true, &format!("\"{}\"", filled("\\u00e9")));
    assert_json("backslashes", true, &format!("\"{}\"", filled("\\\\")));
    assert_json("no end", false, &format!("\"{}", filled("\u{e9}")));
    assert_json("space", false, &filled(" "));
}

#[test]
fn forms_and_parts_are_bounded() {
    const MULTIPART: &str = "multipart/form-data; boundary=BBBBBBBBBBBBBBBBBBBBBBBBC";
    for pattern in ["a&", "+&", "&", "=", "%", "%41", "%41+&="] {
        assert_bounded(pattern, FORM, &filled(pattern));
    }
    let boundary = "--BBBBBBBBBBBBBBBBBBBBBBBBC";
    for pattern in [
        "--",
        "a:\r\n",
        "\r\n--BBBBBBBBBBBBBBBBBBBBBBBB",
        "\r\n\r\n",
        boundary,
        "x",
    ] {
        let body = format!(
            "{boundary}\r\na:\r\n\r\n{}\r\n{boundary}--",
            filled(pattern)
        );
        assert_bounded(pattern, MULTIPART, &body);
        assert_bounded(pattern, MULTIPART, &filled(pattern));
    }
    let parts = filled(&format!("{boundary}\r\na:\r\n\r\n\r\n"));
    assert_bounded("tiny parts", MULTIPART, &format!("{parts}{boundary}--"));
    assert_bounded("tiny parts without end", MULTIPART, &parts);
}
