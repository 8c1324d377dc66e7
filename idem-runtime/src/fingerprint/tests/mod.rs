use bytes::Bytes;

use super::{Fingerprint, FingerprintedRequest};

mod json;
mod multipart;
pub(super) mod reference;
mod request;
pub(super) mod spelling;
mod vectors;
mod work;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The fingerprint of a request that differs from others of its kind only in
/// type and body.
pub(super) fn of_body(content_type: &str, body: impl AsRef<[u8]>) -> Fingerprint {
    Fingerprint::of_request(&FingerprintedRequest {
        method: "POST",
        target: "/payments",
        content_type: Some(content_type.as_bytes()),
        body: Some(&Bytes::copy_from_slice(body.as_ref())),
    })
}

pub(super) fn of_json(text: impl AsRef<[u8]>) -> Fingerprint {
    of_body(JSON, text)
}

/// A generator (xorshift) for choices that need no shrinking.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give similar sequences; zero would stay.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % bound as u64).expect("the bound is a usize")
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
