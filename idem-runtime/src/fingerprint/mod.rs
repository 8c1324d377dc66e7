//! Tells whether a repeat with the same key is the same request.
//!
//! A fingerprint is the SHA-256 of a request as the HTTP layer received it:
//! method, target, media type, and the body in a form in which spellings that
//! mean the same are the same bytes. Nothing here looks at what an extractor
//! made of the body: two requests that differ in a member which the handler
//! ignores are different requests.
//!
//! The bytes under the hash are [`VERSION`], the [`Subject`], method, target,
//! and media type, the [`BodyForm`], and what it is followed by. Every part is
//! preceded by its length (a `u64`, little endian), so that no two requests lead
//! to the same bytes. Where a canonical form does not exist (the body is not
//! what its media type says, or it is ambiguous) the raw bytes count, under a
//! tag of their own.
//!
//! Stored fingerprints outlive a deployment: whatever changes the bytes under
//! the hash also changes [`VERSION`], and every key that is in use at that
//! moment answers its retries with 422.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};

mod form;
#[cfg(any(test, idem_fuzzing))]
pub(crate) mod fuzz;
mod json;
mod multipart;
mod number;
#[cfg(any(test, idem_fuzzing))]
mod oracle;
mod string;
#[cfg(test)]
mod tests;

const VERSION: u8 = 1;

/// What a value writes itself to.
pub type JsonWriter<'w, 't> = &'w mut serde_json::Serializer<&'t mut Vec<u8>>;

/// Whether it could.
pub type JsonWritten = Result<(), serde_json::Error>;

/// A value for `fingerprint = …`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared with a repeat's; it is not `Serialize`",
    note = "add `#[derive(serde::Serialize)]` to it, or name what is compared, such as `fingerprint = (payment.amount, payment.currency)`"
)]
pub trait Fingerprinted {
    /// Writes the value down.
    ///
    /// # Errors
    /// The value cannot be serialised as JSON.
    fn write(&self, writer: JsonWriter<'_, '_>) -> JsonWritten;
}

impl<T: Serialize + ?Sized> Fingerprinted for T {
    fn write(&self, writer: JsonWriter<'_, '_>) -> JsonWritten {
        self.serialize(writer)
    }
}

/// Identifies the content of a request: the SHA-256 that is stored with the
/// key, and compared when the key comes again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes as they are stored.
    #[must_use]
    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Computes the fingerprint of a value that stands for the request.
    ///
    /// The value is serialised as JSON and read like a JSON body, so the
    /// iteration order of a map does not matter.
    ///
    /// # Errors
    ///
    /// - The value cannot be serialised as JSON (for example a map whose keys
    ///   are no strings).
    pub(crate) fn of_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Self::of_written(|writer| value.serialize(writer))
    }

    /// Computes it of a value that writes itself.
    pub(crate) fn of_written(
        write: impl FnOnce(JsonWriter<'_, '_>) -> JsonWritten,
    ) -> Result<Self, serde_json::Error> {
        let mut text = Vec::new();
        write(&mut serde_json::Serializer::new(&mut text))?;
        let mut hasher = Hasher::new(Subject::Value);
        hasher.json(&text);
        Ok(hasher.finish())
    }

    /// Computes the fingerprint of a request.
    pub(crate) fn of_request(request: &FingerprintedRequest<'_>) -> Self {
        #[cfg(idem_seeded_bugs)]
        if crate::seeded::bug("fingerprint_of_nothing") {
            return Self([0; 32]);
        }
        let mut hasher = Hasher::new(Subject::Request);
        hasher.part(request.method.as_bytes());
        hasher.part(request.target.as_bytes());
        let Some(body) = request.body else {
            hasher.form(BodyForm::Absent);
            return hasher.finish();
        };

        let content_type = request.content_type.unwrap_or_default();
        let essence = essence(content_type);
        hasher.part(&essence);
        match MediaType::of(&essence) {
            MediaType::Json => hasher.json(body),
            MediaType::Form => {
                hasher.form(BodyForm::Pairs);
                form::hash(body, &mut hasher);
            }
            MediaType::Multipart => match multipart::hash(content_type, body, &hasher) {
                Some(parts) => hasher = parts,
                None => hasher.raw(body),
            },
            MediaType::Other => hasher.raw(body),
        }
        hasher.finish()
    }
}

/// A short prefix, enough to tell fingerprints apart in a log.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(")?;
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…)")
    }
}

/// The parts of a request that make it the same request.
#[derive(Clone, Copy)]
pub(crate) struct FingerprintedRequest<'a> {
    pub(crate) method: &'a str,
    /// The path and query that the client sent, before any router stripped a
    /// prefix from it.
    pub(crate) target: &'a str,
    pub(crate) content_type: Option<&'a [u8]>,
    /// `None` for a handler that has no body extractor: it cannot see the body,
    /// so neither the body nor its type makes a difference.
    pub(crate) body: Option<&'a Bytes>,
}

#[derive(Clone, Copy)]
enum Subject {
    Request = 1,
    Value = 2,
}

/// How the bytes after it are to be read. Part of the hash: bodies that were
/// read in different ways never have the same fingerprint.
#[derive(Clone, Copy)]
enum BodyForm {
    Absent = 0,
    Raw = 1,
    Json = 2,
    Pairs = 3,
    Parts = 4,
}

enum MediaType {
    Json,
    Form,
    Multipart,
    Other,
}

impl MediaType {
    fn of(essence: &[u8]) -> Self {
        match essence {
            b"application/json" => Self::Json,
            b"application/x-www-form-urlencoded" => Self::Form,
            b"multipart/form-data" => Self::Multipart,
            // RFC 6839 section 3.1
            _ if essence.ends_with(b"+json") => Self::Json,
            _ => Self::Other,
        }
    }
}

/// Returns `type/subtype` in lower case, without parameters.
fn essence(content_type: &[u8]) -> Vec<u8> {
    let end = content_type.iter().position(|&byte| byte == b';');
    content_type[..end.unwrap_or(content_type.len())]
        .trim_ascii()
        .to_ascii_lowercase()
}

/// SHA-256 over parts that cannot run into each other.
#[derive(Clone)]
struct Hasher(Sha256);

impl Hasher {
    fn new(subject: Subject) -> Self {
        Self(Sha256::new_with_prefix([VERSION, subject as u8]))
    }

    fn part(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    fn form(&mut self, form: BodyForm) {
        self.0.update([form as u8]);
    }

    fn raw(&mut self, body: &[u8]) {
        self.form(BodyForm::Raw);
        self.part(body);
    }

    fn json(&mut self, text: &[u8]) {
        match json::canonical(text) {
            Some(canonical) => {
                self.form(BodyForm::Json);
                self.part(&canonical);
            }
            None => self.raw(text),
        }
    }

    fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }
}
