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
    let end = end_of_sole_parts(body, &boundary)?;

    let mut hasher = hasher.clone();
    hasher.form(BodyForm::Parts);
    // The body is in memory, so there is nothing to wait for; if the parser
    // should wait nevertheless, it would wait for ever.
    let parts = read(body, boundary, &mut hasher).now_or_never()?.ok()?;
    hasher.part(end.after);
    (parts == end.delimiters).then_some(hasher)
}

struct End<'a> {
    /// How many there are, without the one that begins the body.
    delimiters: usize,
    after: &'a [u8],
}

/// The parser skips what comes before the first delimiter and after the last.
/// For a body that has neither, returns how many parts there must be: if there
/// are fewer, then the parser saw the end earlier and skipped the rest.
fn end_of_sole_parts<'a>(body: &'a [u8], boundary: &str) -> Option<End<'a>> {
    let delimiter = format!("\r\n--{boundary}");
    let (opening, after_return) = (&delimiter.as_bytes()[2..], &delimiter.as_bytes()[1..]);

    let lines = body.split(|&byte| byte == b'\r').skip(1);
    let delimiters = lines.filter(|line| line.starts_with(after_return)).count();
    let (closed, after) = match body.strip_suffix(b"\r\n") {
        Some(closed) => (closed, &b"\r\n"[..]),
        None => (body, &b""[..]),
    };
    let content = closed.strip_suffix(b"--")?.strip_suffix(opening)?;
    let sole = content.is_empty() || content.starts_with(opening) && content.ends_with(b"\r\n");
    sole.then_some(End { delimiters, after })
}

async fn read(body: &Bytes, boundary: String, hasher: &mut Hasher) -> multer::Result<usize> {
    let body = stream::iter([Ok::<_, Infallible>(body.clone())]);
    let mut multipart = Multipart::new(body, boundary);
    let mut parts = 0;
    while let Some(field) = multipart.next_field().await? {
        parts += 1;
        let mut headers: Vec<_> = field.headers().iter().collect();
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
    Ok(parts)
}
