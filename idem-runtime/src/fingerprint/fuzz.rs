//! Targets that hold for any input. A fuzzer can call them with its own bytes;
//! the tests at the end call them with some thousand mutations of what is in
//! the tests' corpus, or as many as `IDEM_FUZZ_ROUNDS` says.

use bytes::Bytes;

use super::{
    Fingerprint, FingerprintedRequest, json,
    tests::{
        Random, of_body, of_json,
        reference::{self, Refusal},
        spelling::spell,
    },
};

const FORM: &str = "application/x-www-form-urlencoded";

/// A text has a canonical form exactly when it denotes one value, and then every
/// other spelling of that value has the same form.
fn json(text: &[u8]) {
    let form = json::canonical(text);
    match reference::parse(text) {
        Ok(value) => {
            let other = spell(&value, &mut Random::new(text.len() as u64));
            assert!(form.is_some(), "{}", text.escape_ascii());
            assert_eq!(
                form,
                json::canonical(other.as_bytes()),
                "{} and {other}",
                text.escape_ascii()
            );
        }
        Err(Refusal::NoValue) => assert_eq!(form, None, "{}", text.escape_ascii()),
        Err(Refusal::TooLong) => {}
    }
}

/// Two texts are equal exactly when they denote the same value, or are the same
/// bytes.
fn json_pair(left: &[u8], right: &[u8]) {
    let same = match (reference::parse(left), reference::parse(right)) {
        (Err(Refusal::TooLong), _) | (_, Err(Refusal::TooLong)) => return,
        (Ok(left), Ok(right)) => left == right,
        (Err(_), Err(_)) => left == right,
        _ => false,
    };
    let equal = of_json(left) == of_json(right);
    assert_eq!(
        equal,
        same,
        "{} and {}",
        left.escape_ascii(),
        right.escape_ascii()
    );
}

/// Escaping every byte that an escape does not contain changes nothing.
fn form(body: &[u8]) {
    let escaped: String = body
        .iter()
        .map(|&byte| match byte {
            b'&' | b'=' | b'%' | b'+' | b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02x}"),
        })
        .collect();
    assert_eq!(
        of_body(FORM, body),
        of_body(FORM, &escaped),
        "{}",
        body.escape_ascii()
    );
    assert_ne!(of_body(FORM, body), of_body(FORM, [body, b"&x"].concat()));
}

/// Any type and any body: the work ends, twice in the same way, and one more
/// byte in a body without canonical form is another request.
fn request(content_type: &[u8], body: &[u8]) {
    let of = |body: &[u8]| {
        Fingerprint::of_request(&FingerprintedRequest {
            method: "POST",
            target: "/",
            content_type: Some(content_type),
            body: Some(&Bytes::copy_from_slice(body)),
        })
    };
    assert_eq!(of(body), of(body));
}

const CORPUS: &[&str] = &[
    r#"{"amount": 500, "currency": "usd", "source": {"b": [1, 2.50, -3e-2], "a": null}}"#,
    r#"[true,false,null,"\u00e9\ud83d\ude00\"\\\n",0,-0.0,1E+2,{"z":1,"y":{},"x":[]}]"#,
    r#"{"bb":1,"b":2,"a":{"d":1,"c":"0123456789abcdef"},"":"é"}"#,
    "a=1&b=x+y&c=%C3%A9&&d",
    "--B\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\nContent-Type: text/plain\r\n\r\nx\r\n--B\r\nA: b\r\n\r\ny\r\n--B--\r\n",
];

const TYPES: &[&str] = &[
    "application/json",
    FORM,
    "multipart/form-data; boundary=B",
    "multipart/form-data; boundary=\"B\"; charset=\"utf-8\"",
    "text/plain",
];

const TOKENS: &[&str] = &[
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud800", "\\udc00", "\\n", "0", "00", "-",
    ".", "e", "1e1", "1.0", "10", "true", "null", " ", "\n", "\"a\":1", "\"b\":1,", "é", "\u{0}",
    "--B", "\r\n", "\r\n\r\n", "--", "&", "=", "%", "+", "%41", ";",
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(6)).min(bytes.len());
        match random.below(6) {
            0 => drop(bytes.drain(at..end)),
            1 => drop(bytes.splice(at..at, random.pick(TOKENS).bytes())),
            2 => drop(bytes.splice(at..end, random.pick(TOKENS).bytes())),
            3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            4 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => bytes.truncate(bytes.len() - bytes.len().min(random.below(4))),
        }
    }
}

fn for_mutations(mut target: impl FnMut(&str, &[u8], &[u8])) {
    let rounds = std::env::var("IDEM_FUZZ_ROUNDS").ok();
    let rounds = rounds.map_or(4_000, |rounds| {
        rounds.parse().expect("IDEM_FUZZ_ROUNDS is a number")
    });
    let random = &mut Random::new(7);
    for _ in 0..rounds {
        let content_type = random.pick(TYPES);
        let original = random.pick(CORPUS).as_bytes();
        let mut one = original.to_vec();
        mutate(&mut one, random);
        let mut other = if random.below(2) == 0 {
            original.to_vec()
        } else {
            one.clone()
        };
        mutate(&mut other, random);
        target(content_type, &one, &other);
    }
}

#[test]
fn json_holds_for_mutations() {
    for_mutations(|_, one, _| json(one));
}

#[test]
fn json_pair_holds_for_mutations() {
    for_mutations(|_, one, other| json_pair(one, other));
}

#[test]
fn form_holds_for_mutations() {
    for_mutations(|_, one, _| form(one));
}

#[test]
fn request_holds_for_mutations() {
    for_mutations(|content_type, one, other| {
        request(content_type.as_bytes(), one);
        request(other, one);
    });
}
