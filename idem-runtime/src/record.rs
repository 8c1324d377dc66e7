//! What is kept of a finished run: which outcomes, and in what form.

use bytes::{Buf, BufMut, Bytes};

/// Which responses are kept, the attribute's `record` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// 2xx and 3xx.
    Success,
    /// 2xx, 3xx, and those 4xx that the same request would get again.
    Deterministic,
    /// Every response; only panics are released.
    All,
}

/// What becomes of a run: of its writes, and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// The writes and the answer commit together.
    KeepWithWrites,
    /// The writes are rolled back; the answer is stored.
    KeepAnswer,
    /// Everything is rolled back; the key is free.
    Release,
}

impl Record {
    /// The disposition of a response by its status, where the handler did not overrule it.
    pub(crate) fn disposition(self, status: u16) -> Disposition {
        match status {
            ..400 => Disposition::KeepWithWrites,
            _ if self == Self::All => Disposition::KeepAnswer,
            // Not a verdict on the request: who asks, when, or in which state of the world
            // decides these, and the same request may succeed a moment later.
            401 | 403 | 407 | 408 | 409 | 421 | 423 | 424 | 425 | 428 | 429 => Disposition::Release,
            400..500 if self == Self::Deterministic => Disposition::KeepAnswer,
            _ => Disposition::Release,
        }
    }
}

/// What the store keeps of a finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The response, to be replayed.
    Response(StoredResponse),
    /// Only the fact: the response was too large, or a stream.
    Tombstone,
}

/// A response as it is replayed: status, headers in order with repeats, body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(Bytes, Bytes)>,
    pub(crate) body: Bytes,
}

impl StoredResponse {
    /// The headers as one column: for each, the name and the value, each after its
    /// length as a big-endian `u32`. Header values are bytes (RFC 9110 section 5.5),
    /// which neither JSON nor text columns hold.
    pub(crate) fn encode_headers(&self) -> Vec<u8> {
        let length = self
            .headers
            .iter()
            .map(|(n, v)| 8 + n.len() + v.len())
            .sum();
        let mut column = Vec::with_capacity(length);
        for part in self.headers.iter().flat_map(|(name, value)| [name, value]) {
            // A header beyond 4 GiB does not exist: HTTP libraries refuse it long before.
            column.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
            column.put_slice(part);
        }
        column
    }

    /// The reverse of [`encode_headers`](Self::encode_headers); `None` for a column that
    /// it did not write.
    pub(crate) fn decode_headers(column: Vec<u8>) -> Option<Vec<(Bytes, Bytes)>> {
        let mut column = Bytes::from(column);
        let mut headers = Vec::new();
        while column.has_remaining() {
            let name = take_part(&mut column)?;
            let value = take_part(&mut column)?;
            headers.push((name, value));
        }
        Some(headers)
    }
}

fn take_part(column: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(column.try_get_u32().ok()?).ok()?;
    (length <= column.len()).then(|| column.split_to(length))
}

/// Length-prefixes each part, so that no two lists of parts give the same bytes.
pub(crate) fn length_prefixed<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    // As long as a tenant, a scope, and a key usually are.
    let mut out = Vec::with_capacity(128);
    for part in parts {
        out.put_u64(part.len() as u64);
        out.put_slice(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_come_back_as_bytes_in_order_with_repeats() {
        let response = StoredResponse {
            status: 201,
            headers: [
                (&b"link"[..], &b"<a>"[..]),
                (b"link", b""),
                (b"x-raw", b"\xff\x00\r\n"),
            ]
            .map(|(name, value)| (Bytes::from_static(name), Bytes::from_static(value)))
            .to_vec(),
            body: Bytes::new(),
        };
        let decoded = StoredResponse::decode_headers(response.encode_headers());
        assert_eq!(decoded, Some(response.headers));
    }

    #[test]
    fn a_cut_column_is_refused() {
        for column in [
            &[0, 0, 0][..],
            &[0, 0, 0, 2, b'a'],
            &[0, 0, 0, 1, b'a'],
            &[255; 9],
        ] {
            assert_eq!(
                StoredResponse::decode_headers(column.to_vec()),
                None,
                "{column:?}"
            );
        }
    }

    #[test]
    fn each_status_is_kept_as_documented() {
        use Disposition::{KeepAnswer, KeepWithWrites, Release};
        for (status, deterministic, success, all) in [
            (200, KeepWithWrites, KeepWithWrites, KeepWithWrites),
            (303, KeepWithWrites, KeepWithWrites, KeepWithWrites),
            (400, KeepAnswer, Release, KeepAnswer),
            (402, KeepAnswer, Release, KeepAnswer),
            (401, Release, Release, KeepAnswer),
            (409, Release, Release, KeepAnswer),
            (429, Release, Release, KeepAnswer),
            (500, Release, Release, KeepAnswer),
            (503, Release, Release, KeepAnswer),
        ] {
            let found = [Record::Deterministic, Record::Success, Record::All]
                .map(|record| record.disposition(status));
            assert_eq!(found, [deterministic, success, all], "{status}");
        }
    }

    proptest! {
        #[test]
        fn a_column_is_read_as_it_was_written_or_not_at_all(
            column in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..64),
                prop::collection::vec(prop_oneof![9 => Just(0_u8), 1 => 0_u8..6], 0..64),
            ],
        ) {
            crate::fuzz::record(&[&[0, 200, 0], &column[..]].concat());
        }
    }
}
