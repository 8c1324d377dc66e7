//! What holds of fingerprints whatever the bodies are. Each function takes whatever a fuzzer
//! makes up; those that compare two bodies take them with a `0xFF` in between.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use multer::Multipart;

use super::oracle::Random;
use super::oracle::reference::{self, Refusal};
use super::oracle::spelling::{change, spell};
use super::{Fingerprint, FingerprintedRequest, Hasher, Subject, json, multipart};

fn of(content_type: &[u8], body: &[u8]) -> Fingerprint {
    Fingerprint::of_request(&FingerprintedRequest {
        method: "POST",
        target: "/",
        content_type: Some(content_type),
        body: Some(&Bytes::copy_from_slice(body)),
    })
}

fn halves(input: &[u8]) -> (&[u8], &[u8]) {
    let at = input.iter().position(|&byte| byte == 0xff);
    at.map_or((input, &[]), |at| (&input[..at], &input[at + 1..]))
}

/// Two JSON texts have the same fingerprint exactly when they denote the same value, or are the
/// same bytes.
///
/// # Panics
/// Where that does not hold.
pub fn json(input: &[u8]) {
    let (left, right) = halves(input);
    for text in [left, right] {
        json_form(text);
    }
    let same = match (reference::parse(left), reference::parse(right)) {
        (Err(Refusal::TooLong), _) | (_, Err(Refusal::TooLong)) => return,
        (Ok(left), Ok(right)) => left == right,
        (Err(_), Err(_)) => left == right,
        _ => false,
    };
    let equal = of(b"application/json", left) == of(b"application/json", right);
    let (left, right) = (left.escape_ascii(), right.escape_ascii());
    assert_eq!(equal, same, "{left} and {right}");
}

/// A text has a canonical form exactly when it denotes one value; then every other spelling of
/// that value has the same form, and no other value has it.
fn json_form(text: &[u8]) {
    let form = json::canonical(text);
    let mut value = match reference::parse(text) {
        Ok(value) => value,
        Err(Refusal::NoValue) => return assert_eq!(form, None, "{}", text.escape_ascii()),
        Err(Refusal::TooLong) => return,
    };
    let random = &mut Random::new(text.len() as u64);
    assert!(form.is_some(), "{}", text.escape_ascii());
    let same = spell(&value, random);
    let formed = json::canonical(same.as_bytes());
    assert_eq!(form, formed, "{} and {same}", text.escape_ascii());
    change(&mut value, random);
    let other = spell(&value, random);
    let formed = json::canonical(other.as_bytes());
    assert_ne!(form, formed, "{} and {other}", text.escape_ascii());
}

/// Two forms have the same fingerprint exactly when their pairs are the same bytes in the same
/// order.
///
/// # Panics
/// Where that does not hold.
pub fn form(input: &[u8]) {
    const FORM: &[u8] = b"application/x-www-form-urlencoded";
    let (left, right) = halves(input);
    let equal = of(FORM, left) == of(FORM, right);
    let same = pairs(left) == pairs(right);
    let (left, right) = (left.escape_ascii(), right.escape_ascii());
    assert_eq!(equal, same, "{left} and {right}");
}

/// The pairs of a form, byte after byte (URL standard, section 5.1), before they become text.
fn pairs(body: &[u8]) -> Vec<[Vec<u8>; 2]> {
    let digit = |at: usize| char::from(*body.get(at)?).to_digit(16);
    let mut pairs = Vec::new();
    let mut pair = [Vec::new(), Vec::new()];
    let (mut at, mut side, mut begun) = (0, 0, false);
    while at <= body.len() {
        match body.get(at) {
            None | Some(b'&') => {
                if begun {
                    pairs.push(std::mem::take(&mut pair));
                }
                (side, begun) = (0, false);
                at += 1;
                continue;
            }
            Some(b'=') if side == 0 => side = 1,
            Some(b'+') => pair[side].push(b' '),
            Some(b'%') => match (digit(at + 1), digit(at + 2)) {
                (Some(high), Some(low)) => {
                    pair[side].extend(u8::try_from(16 * high + low));
                    at += 2;
                }
                _ => pair[side].push(b'%'),
            },
            Some(&byte) => pair[side].push(byte),
        }
        begun = true;
        at += 1;
    }
    pairs
}

/// Two multipart bodies have the same fingerprint only when they have the same parts, down to the
/// last byte, whoever reads them. Another boundary changes nothing. The boundary stands in front, up
/// to a line feed.
///
/// # Panics
/// Where that does not hold.
pub fn multipart(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n');
    let (boundary, bodies) = input.split_at(end.map_or(0, |end| end + 1));
    let content_type = [b"multipart/form-data; boundary=", boundary.trim_ascii()].concat();
    let (left, right) = halves(bodies);
    if of(&content_type, left) == of(&content_type, right) {
        let sole = |body| Some(sole_parts(body, &multer_boundary(&content_type)?));
        let same = left == right || sole(left) == sole(right);
        assert!(same, "{} and {}", left.escape_ascii(), right.escape_ascii());
    }

    let of_parts = |content_type: &[u8], body: &[u8]| {
        let body = Bytes::copy_from_slice(body);
        let hasher = multipart::hash(content_type, &body, &Hasher::new(Subject::Request));
        Some(hasher?.finish())
    };
    for body in [left, right] {
        let Some(fingerprint) = of_parts(&content_type, body) else {
            continue;
        };
        let other = "a-boundary-that-occurs-in-no-body-unless-somebody-wants-it-to";
        if body.windows(other.len()).any(|at| at == other.as_bytes()) {
            continue;
        }
        let parts = parts(&content_type, body).expect("they were just read");
        let end = if body.ends_with(b"\r\n") { "\r\n" } else { "" };
        let rendered = render(&parts, other, end);
        let content_type = format!("multipart/form-data; boundary={other}");
        assert_eq!(
            of_parts(content_type.as_bytes(), &rendered),
            Some(fingerprint),
            "{} and {}",
            body.escape_ascii(),
            rendered.escape_ascii()
        );
    }
}

#[derive(Debug, PartialEq)]
struct Part {
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    content: Vec<u8>,
}

fn multer_boundary(content_type: &[u8]) -> Option<String> {
    multer::parse_boundary(std::str::from_utf8(content_type).ok()?).ok()
}

/// What a body of the form of RFC 7578 consists of, without a parser: between the delimiters, the
/// header lines in any order, with names in lower case and values without outer space, and the rest
/// as it stands.
fn sole_parts(body: &[u8], boundary: &str) -> Vec<Part> {
    let body = [b"\r\n", body].concat();
    let pieces = split(&body, format!("\r\n--{boundary}").as_bytes());
    let part = |piece: &[u8]| {
        let at = piece.windows(4).position(|end| end == b"\r\n\r\n");
        let (head, content) = at.map_or((&[][..], piece), |at| (&piece[..at], &piece[at..]));
        let mut headers: Vec<_> = split(head, b"\r\n")
            .iter()
            .map(|line| header(line))
            .collect();
        headers.sort();
        let content = content.to_vec();
        Part { headers, content }
    };
    pieces.into_iter().map(part).collect()
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let (mut rest, mut pieces) = (text, Vec::new());
    while let Some(at) = rest.windows(by.len()).position(|piece| piece == by) {
        pieces.push(&rest[..at]);
        rest = &rest[at + by.len()..];
    }
    pieces.push(rest);
    pieces
}

fn header(line: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let colon = line.iter().position(|&byte| byte == b':');
    let (name, value) = line.split_at(colon.unwrap_or(line.len()));
    (
        name.to_ascii_lowercase(),
        value
            .strip_prefix(b":")
            .unwrap_or(value)
            .trim_ascii()
            .to_vec(),
    )
}

/// The parts as a handler gets them from axum.
fn parts(content_type: &[u8], body: &[u8]) -> Option<Vec<Part>> {
    let boundary = multer_boundary(content_type)?;
    let body = stream::iter([Ok::<_, Infallible>(Bytes::copy_from_slice(body))]);
    let mut multipart = Multipart::new(body, boundary);
    let mut parts = Vec::new();
    while let Some(field) = multipart.next_field().now_or_never()?.ok()? {
        let headers = field.headers().iter();
        let mut headers: Vec<_> = headers
            .map(|(name, value)| (name.as_str().into(), value.as_bytes().to_vec()))
            .collect();
        headers.sort();
        let content = field.bytes().now_or_never()?.ok()?.to_vec();
        parts.push(Part { headers, content });
    }
    Some(parts)
}

fn render(parts: &[Part], boundary: &str, end: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for Part { headers, content } in parts {
        body.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        for (name, value) in headers {
            body.extend([name, &b": "[..], value, b"\r\n"].concat());
        }
        body.extend([b"\r\n", &content[..], b"\r\n"].concat());
    }
    body.extend_from_slice(format!("--{boundary}--{end}").as_bytes());
    body
}
