//! Canonical form of a JSON string: in quotes, with every escape resolved but
//! those of the quote and the backslash. A string without escapes is its own
//! canonical form.

/// Writes the canonical form of the string whose quote is at `open`, and
/// returns the position after it. `None`: there is no end, a bad escape, a
/// control character, a lone surrogate, or bytes that are not UTF-8.
#[inline]
pub(super) fn write(text: &[u8], open: usize, out: &mut Vec<u8>) -> Option<usize> {
    let end = open + 1 + plain(&text[open + 1..])?;
    if text.get(end) == Some(&b'"') {
        out.extend_from_slice(&text[open..=end]);
        return Some(end + 1);
    }
    write_escaped(text, open, end, out)
}

/// The same for a string that has something else than its quote at `end`.
fn write_escaped(text: &[u8], open: usize, mut end: usize, out: &mut Vec<u8>) -> Option<usize> {
    out.extend_from_slice(&text[open..end]);
    loop {
        match *text.get(end)? {
            b'"' => {
                out.push(b'"');
                return Some(end + 1);
            }
            b'\\' => {
                let start = write_unescaped(text, end + 1, out)?;
                end = start + plain(&text[start..])?;
                out.extend_from_slice(&text[start..end]);
            }
            _control => return None,
        }
    }
}

/// Writes the character that the escape after the backslash stands for, and
/// returns the position after it.
fn write_unescaped(text: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let mut end = at + 1;
    let character = match *text.get(at)? {
        escape @ (b'"' | b'\\' | b'/') => char::from(escape),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = code_unit(text, at + 1)?;
            end += 4;
            if matches!(unit, 0xd800..0xdc00) {
                if text.get(end..end + 2)? != b"\\u" {
                    return None;
                }
                let low = code_unit(text, end + 2)?;
                end += 6;
                char::decode_utf16([unit, low]).next()?.ok()?
            } else {
                char::from_u32(unit.into())?
            }
        }
        _ => return None,
    };
    if matches!(character, '"' | '\\') {
        out.push(b'\\');
    }
    let mut buffer = [0; 4];
    out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
    Some(end)
}

fn code_unit(text: &[u8], at: usize) -> Option<u16> {
    text.get(at..at + 4)?.iter().try_fold(0, |unit, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

/// Returns the number of bytes before the first quote, backslash, or control
/// character. `None`: they are not UTF-8.
#[inline]
fn plain(bytes: &[u8]) -> Option<usize> {
    let (length, ascii) = scan(bytes);
    // What ends the run is ASCII, so it cannot cut a character in two.
    (ascii || std::str::from_utf8(&bytes[..length]).is_ok()).then_some(length)
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGH_BITS: u64 = ONES << 7;

/// Eight bytes at a time. Each test below sets the high bit of the bytes it is
/// about; a borrow can also set it in bytes above one of those, which does no
/// harm because only the lowest counts.
#[inline]
fn scan(bytes: &[u8]) -> (usize, bool) {
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let mut at = 0;
    let mut seen = 0;
    while let Some(chunk) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = zeros(word ^ (ONES * u64::from(b'"')));
        let backslash = zeros(word ^ (ONES * u64::from(b'\\')));
        let stops = (control | quote | backslash) & HIGH_BITS;
        if stops != 0 {
            let lowest = stops.trailing_zeros();
            seen |= word & ((1 << lowest) - 1);
            return (at + (lowest / 8) as usize, seen & HIGH_BITS == 0);
        }
        seen |= word;
        at += 8;
    }
    let tail = &bytes[at..];
    let length = tail
        .iter()
        .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
        .unwrap_or(tail.len());
    let ascii = seen & HIGH_BITS == 0 && tail[..length].is_ascii();
    (at + length, ascii)
}
