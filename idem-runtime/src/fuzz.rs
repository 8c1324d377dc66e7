//! What holds for any bytes that a client, or a hand in the database, can bring. `scripts/fuzz` runs
//! each function under a fuzzer, and the tests at the end run it briefly on what is in its corpus.

pub use crate::fingerprint::fuzz::{form, json, multipart};

use crate::claim::Identity;
use crate::key::Key;
use crate::record::{Kept, StoredResponse};
use crate::seal::from_columns;
use crate::store::ResponseColumns;
use crate::tenant::Tenant;

/// A field value is a key by the rules, or none.
///
/// # Panics
/// Where it is not.
pub fn key(value: &[u8]) {
    let found = Key::from_field_value(value).map(|key| key.as_str().to_owned());
    assert_eq!(found.ok(), expected_key(value), "{}", value.escape_ascii());
}

/// The rules once more, in another way: by what may stand where.
fn expected_key(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let visible = |c: &char| ('!'..='~').contains(c);
    let content = match text.strip_prefix('"') {
        None => text.to_owned(),
        Some(rest) => {
            let quoted = rest.strip_suffix('"')?;
            // Between two escaped backslashes nothing is escaped but quotes.
            let pieces = quoted.split(r"\\").map(|piece| {
                let piece = piece.split("\\\"");
                let sound = piece.clone().all(|plain| !plain.contains(['"', '\\']));
                sound.then(|| piece.collect::<Vec<_>>().join("\""))
            });
            pieces.collect::<Option<Vec<_>>>()?.join(r"\")
        }
    };
    let sound = content.chars().all(|c| visible(&c)) && (1..=255).contains(&content.len());
    sound.then_some(content)
}

/// A row is a response, which is replayed as it was stored and smuggles nothing, or it is refused.
/// The input is the status, the length of the body, the headers, and the body.
///
/// # Panics
/// Where that does not hold.
pub fn record(row: &[u8]) {
    let (status, rest) = row.split_at(row.len().min(2));
    let (length, rest) = rest.split_at(rest.len().min(1));
    let length = length.first().map_or(0, |&length| usize::from(length));
    let (headers, body) = rest.split_at(rest.len().saturating_sub(length));
    let status = status.try_into().ok().map(i16::from_be_bytes);
    let columns = ResponseColumns {
        status,
        headers: Some(headers.to_vec()),
        body: Some(body.to_vec()),
    };
    let identity = Identity {
        tenant: Tenant::shared(),
        scope: "scope".into(),
        key: Key::new("key").expect("a key"),
    };
    match from_columns(None, &identity, columns) {
        Ok(Kept::Tombstone) => assert_eq!(status, None),
        Ok(Kept::Response(response)) => {
            assert_eq!(response.encode_headers(), headers);
            assert_eq!(response.body, body);
            #[cfg(feature = "axum")]
            replay(&response);
        }
        Err(_) => {
            let headers = StoredResponse::decode_headers(headers.to_vec());
            assert!(headers.is_none() || status < Some(0), "{status:?}");
        }
    }
}

/// What is sent has exactly the stored lines of each name, and none that ends early.
#[cfg(feature = "axum")]
fn replay(stored: &StoredResponse) {
    use std::collections::HashMap;

    let Some(response) = crate::http::replay(stored) else {
        return;
    };
    assert_eq!(response.status().as_u16(), stored.status);
    let mut lines: HashMap<_, Vec<&[u8]>> = HashMap::new();
    for (name, value) in &stored.headers {
        let name = name.to_ascii_lowercase();
        lines.entry(name).or_default().push(value);
    }
    lines.insert(b"idempotent-replayed".to_vec(), vec![b"true"]);
    let headers = response.headers();
    assert_eq!(headers.keys_len(), lines.len());
    for (name, values) in lines {
        let name = http::HeaderName::from_bytes(&name).expect("the name of a header");
        let sent = headers.get_all(name).iter();
        let sent: Vec<_> = sent.map(http::HeaderValue::as_bytes).collect();
        assert_eq!(sent, values);
        let ends = |value: &&[u8]| value.iter().any(|byte| b"\r\n\0".contains(byte));
        assert!(!sent.iter().any(ends), "{sent:?}");
    }
}

#[cfg(test)]
#[path = "../../tests/fuzz/stable.rs"]
mod stable;

#[cfg(test)]
mod tests {
    use super::stable;

    #[test]
    fn any_key_header_is_judged_by_the_rules() {
        stable::run("key", super::key);
    }

    #[test]
    fn json_texts_are_equal_exactly_when_their_values_are() {
        stable::run("json", super::json);
    }

    #[test]
    fn forms_are_equal_exactly_when_their_pairs_are() {
        stable::run("form", super::form);
    }

    #[test]
    fn multipart_bodies_are_equal_only_when_their_parts_are() {
        stable::run("multipart", super::multipart);
    }

    #[test]
    fn any_stored_record_is_replayed_as_it_stands_or_refused() {
        stable::run("record", super::record);
    }
}
