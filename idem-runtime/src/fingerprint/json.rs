//! Canonical form of a JSON text: equal for two texts if and only if they
//! denote the same value.
//!
//! It is made to be hashed, never to be read back, so it is not JSON (RFC 8785
//! is no choice: it merges numbers that are the same `f64`). One value is
//!
//! - `n`, `t`, `f` for the literals,
//! - a number or a string as [`number`] and [`string`] write it,
//! - `[`, each element followed by `,`, `]`,
//! - `{`, each member as its name and its value, ordered by name, `}`,
//! - or, instead of an array or object whose form is longer than
//!   [`INLINE_LIMIT`], `#` and the SHA-256 of that form.
//!
//! Each of them tells where it ends, so none needs a length. The digests keep
//! the work linear: without them, 128 nested objects with members out of order
//! would copy the innermost text 128 times.
//!
//! The text is read once and straight into the canonical form, without a tree.
//! Besides the form itself, three offsets per member of the objects that are
//! still open are kept.

use sha2::{Digest, Sha256};

use super::{number, string};

/// Arrays and objects within each other. Bounds the recursion.
const MAX_DEPTH: usize = 128;

/// Bytes up to which the form of an array or object is kept as it is.
const INLINE_LIMIT: usize = 1024;

/// Returns the canonical form, or `None` where there is none: the text is not
/// JSON, an object has two members of the same name, a string has a lone
/// surrogate, a number's exponent is beyond `i64`, or the text is nested too
/// deeply.
pub(super) fn canonical(text: &[u8]) -> Option<Vec<u8>> {
    let mut writer = Writer {
        text,
        at: 0,
        out: Vec::with_capacity(text.len()),
        members: Vec::new(),
        reordered: Vec::new(),
    };
    writer.value(0)?;
    // Anything after the value but white space is an error.
    writer.peek().is_none().then_some(writer.out)
}

struct Writer<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Of every object that is still open, outermost first.
    members: Vec<Member>,
    /// Only kept for its allocation.
    reordered: Vec<u8>,
}

/// A member's place in the output.
struct Member {
    start: usize,
    value: usize,
    end: usize,
}

impl Member {
    fn name<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.start..self.value]
    }

    fn text<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.start..self.end]
    }
}

impl Writer<'_> {
    /// Skips white space and returns the byte after it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.text.get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.at = string::write(self.text, self.at, &mut self.out)?,
            b'{' if depth < MAX_DEPTH => self.object(depth + 1)?,
            b'[' if depth < MAX_DEPTH => self.array(depth + 1)?,
            b't' => self.literal(b"true")?,
            b'f' => self.literal(b"false")?,
            b'n' => self.literal(b"null")?,
            _ => self.at = number::write(self.text, self.at, &mut self.out)?,
        }
        Some(())
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        if !self.text[self.at..].starts_with(literal) {
            return None;
        }
        self.at += literal.len();
        self.out.push(literal[0]);
        Some(())
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        let start = self.out.len();
        self.at += 1;
        self.out.push(b'[');
        if self.peek()? == b']' {
            self.at += 1;
        } else {
            loop {
                self.value(depth)?;
                self.out.push(b',');
                if self.ends_with(b']')? {
                    break;
                }
            }
        }
        self.out.push(b']');

        if self.out.len() - start > INLINE_LIMIT {
            let digest = Sha256::digest(&self.out[start..]);
            self.replace(start, &digest);
        }
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        let start = self.out.len();
        let first = self.members.len();
        self.at += 1;
        self.out.push(b'{');
        let mut in_order = true;
        if self.peek()? == b'}' {
            self.at += 1;
        } else {
            loop {
                in_order &= self.member(first, depth)?;
                if self.ends_with(b'}')? {
                    break;
                }
            }
        }
        self.out.push(b'}');

        if !in_order {
            self.sort(first)?;
        }
        if self.out.len() - start > INLINE_LIMIT {
            let digest = if in_order {
                Sha256::digest(&self.out[start..])
            } else {
                self.digest_in_order(first)
            };
            self.replace(start, &digest);
        } else if !in_order {
            self.reorder(first, start + 1);
        }
        self.members.truncate(first);
        Some(())
    }

    /// Writes one member, and returns whether its name comes after that of the
    /// member before it. `first` is the object's first member.
    fn member(&mut self, first: usize, depth: usize) -> Option<bool> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.out.len();
        self.at = string::write(self.text, self.at, &mut self.out)?;
        let value = self.out.len();
        let in_order = self.members[first..]
            .last()
            .is_none_or(|previous| previous.name(&self.out) < &self.out[start..]);

        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        self.value(depth)?;
        self.members.push(Member {
            start,
            value,
            end: self.out.len(),
        });
        Some(in_order)
    }

    /// Reads what follows an element: a comma, or `close`, for which it returns
    /// true.
    fn ends_with(&mut self, close: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(false),
            _ => (byte == close).then_some(true),
        }
    }

    /// Puts the members into the order of their names, but not yet the output.
    /// Two of the same name make the object ambiguous. (A duplicate next to its
    /// twin counts as out of order, so every duplicate is met here.)
    fn sort(&mut self, first: usize) -> Option<()> {
        let out = &self.out;
        let members = &mut self.members[first..];
        members.sort_unstable_by(|a, b| a.name(out).cmp(b.name(out)));
        members
            .windows(2)
            .all(|pair| pair[0].name(out) != pair[1].name(out))
            .then_some(())
    }

    fn reorder(&mut self, first: usize, start: usize) {
        self.reordered.clear();
        for member in &self.members[first..] {
            self.reordered.extend_from_slice(member.text(&self.out));
        }
        self.out[start..][..self.reordered.len()].copy_from_slice(&self.reordered);
    }

    fn digest_in_order(&self, first: usize) -> sha2::digest::Output<Sha256> {
        let mut hasher = Sha256::new_with_prefix(b"{");
        for member in &self.members[first..] {
            hasher.update(member.text(&self.out));
        }
        hasher.chain_update(b"}").finalize()
    }

    fn replace(&mut self, start: usize, digest: &[u8]) {
        self.out.truncate(start);
        self.out.push(b'#');
        self.out.extend_from_slice(digest);
    }
}
