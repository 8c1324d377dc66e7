//! The parts of a `multipart/form-data` body, in their order, without the
//! boundary: clients make up a new one for each try.
//!
//! The parser is the one behind axum's `Multipart`, so a part here is what a
//! handler gets. Of each part all headers count and not only the name, file
//! name, and media type taken from them: a name that is not UTF-8, a
//! `filename*`, or a transfer encoding would be lost.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use multer::Multipart;

use super::{BodyForm, Hasher};

/// Continues `hasher` with the parts. `None`: the body cannot be read as parts,
/// or has something besides them.
pub(super) fn hash(content_type: &[u8], body: &Bytes, hasher: &Hasher) -> Option<Hasher> {
    let content_type = std::str::from_utf8(content_type).ok()?;
    let boundary = multer::parse_boundary(content_type).ok()?;
    let sole = SoleParts::of(body, &boundary)?;

    let mut hasher = hasher.clone();
    hasher.form(BodyForm::Parts);
    // The body is in memory, so there is nothing to wait for; if the parser
    // should wait nevertheless, it would wait for ever.
    let (parts, headers) = read(body, boundary, &mut hasher).now_or_never()?.ok()?;
    hasher.part(sole.after);
    (parts == sole.parts && headers == sole.headers).then_some(hasher)
}

/// How much there must be to read in a body that is nothing but parts. The parser skips what comes
/// before the first delimiter and after the last, what follows an empty line that ends the headers
/// too early, and all but the last of the headers of one name: if it reads less, there is more.
struct SoleParts<'a> {
    parts: usize,
    headers: usize,
    after: &'a [u8],
}

impl<'a> SoleParts<'a> {
    fn of(body: &'a [u8], boundary: &str) -> Option<Self> {
        let delimiter = format!("\r\n--{boundary}");
        let (opening, after_return) = (&delimiter.as_bytes()[2..], &delimiter.as_bytes()[1..]);
        let (closed, after) = match body.strip_suffix(b"\r\n") {
            Some(closed) => (closed, &b"\r\n"[..]),
            None => (body, &b""[..]),
        };
        let content = closed.strip_suffix(b"--")?.strip_suffix(opening)?;
        let (mut parts, mut headers) = (0, 0);
        if content.is_empty() {
            let sole = Self {
                parts,
                headers,
                after,
            };
            return Some(sole);
        }
        if !content.starts_with(opening) || !content.ends_with(b"\r\n") {
            return None;
        }
        // The headers so far of the part whose headers are being read.
        let mut of_this = None;
        for (index, line) in content.split(|&byte| byte == b'\r').enumerate() {
            of_this = match of_this {
                _ if index == 0 || line.starts_with(after_return) => {
                    parts += 1;
                    Some(0)
                }
                Some(1..) if line == b"\n" => None,
                Some(count) => {
                    let header = line.strip_prefix(b"\n")?;
                    if header.is_empty() || header.contains(&b'\n') {
                        return None;
                    }
                    headers += 1;
                    Some(count + 1)
                }
                None => None,
            };
        }
        Some(Self {
            parts,
            headers,
            after,
        })
    }
}

/// Returns how many parts and headers there were.
async fn read(
    body: &Bytes,
    boundary: String,
    hasher: &mut Hasher,
) -> multer::Result<(usize, usize)> {
    let body = stream::iter([Ok::<_, Infallible>(body.clone())]);
    let mut multipart = Multipart::new(body, boundary);
    let (mut parts, mut all) = (0, 0);
    while let Some(field) = multipart.next_field().await? {
        parts += 1;
        let mut headers: Vec<_> = field.headers().iter().collect();
        all += headers.len();
        headers.sort_unstable_by_key(|(name, _)| name.as_str());
        // One more than there are, since zero ends the list of parts.
        hasher.count(1 + headers.len());
        for (name, value) in headers {
            hasher.part(name.as_str().as_bytes());
            hasher.part(value.as_bytes());
        }
        hasher.part(&field.bytes().await?);
    }
    hasher.count(0);
    Ok((parts, all))
}
