//! The pairs of an `application/x-www-form-urlencoded` body, in their order.
//!
//! Split and decoded like the URL standard's parser does it, up to its last
//! step: the decoded bytes are not made into text, because that turns every
//! invalid byte into the same replacement character.

use percent_encoding::percent_decode;

use super::Hasher;

pub(super) fn hash(body: &[u8], hasher: &mut Hasher) {
    // Kept over the pairs for their allocations.
    let (mut spaced, mut decoded) = (Vec::new(), Vec::new());
    let segments = body.split(|&byte| byte == b'&');
    for segment in segments.filter(|segment| !segment.is_empty()) {
        let equals = segment.iter().position(|&byte| byte == b'=');
        let (name, value) = match equals {
            Some(at) => (&segment[..at], &segment[at + 1..]),
            None => (segment, &[][..]),
        };
        for encoded in [name, value] {
            let space_for_plus = |&byte| if byte == b'+' { b' ' } else { byte };
            spaced.clear();
            spaced.extend(encoded.iter().map(space_for_plus));
            decoded.clear();
            decoded.extend(percent_decode(&spaced));
            hasher.part(&decoded);
        }
    }
}
