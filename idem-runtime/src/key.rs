//! The idempotency key: what a client sends, checked before anything is touched.

use std::borrow::Cow;
use std::fmt;

use uuid::Uuid;

/// An idempotency key: 1 to 255 characters of visible ASCII (`0x21` to `0x7E`).
///
/// `Debug` does not show the key: whoever knows it can ask for a replay.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key(String);

const MAX_LENGTH: usize = 255;

impl Key {
    pub(crate) fn new(value: &str) -> Result<Self, InvalidKey> {
        if value.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if value.len() > MAX_LENGTH {
            return Err(InvalidKey::TooLong);
        }
        if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidKey::Character);
        }
        Ok(Self(value.to_owned()))
    }

    /// Reads a field value: a structured-field string (RFC 9651 section 3.3.3)
    /// or a bare value; `"abc"` and `abc` are the same key
    /// (draft-ietf-httpapi-idempotency-key-header-07 section 2.1 wants the former,
    /// most clients send the latter).
    pub(crate) fn from_field_value(value: &[u8]) -> Result<Self, InvalidKey> {
        let value = value.trim_ascii();
        let text = match value {
            [b'"', rest @ ..] => Cow::Owned(unquote(rest)?),
            bare => Cow::Borrowed(bare),
        };
        match std::str::from_utf8(&text) {
            Ok(text) => Self::new(text),
            Err(_) => Err(InvalidKey::Character),
        }
    }

    /// The field value that says this key: bare, as most servers expect it, unless it begins with a
    /// quote, which would make it a structured-field string of another key.
    #[cfg(feature = "client")]
    pub(crate) fn to_field_value(&self) -> Cow<'_, str> {
        if self.0.starts_with('"') {
            let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
            Cow::Owned(format!("\"{escaped}\""))
        } else {
            Cow::Borrowed(&self.0)
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The content of a quoted string whose opening quote is already read.
fn unquote(rest: &[u8]) -> Result<Vec<u8>, InvalidKey> {
    let mut content = Vec::with_capacity(rest.len());
    let mut bytes = rest.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if bytes.len() == 0 => return Ok(content),
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => content.push(escaped),
                _ => return Err(InvalidKey::Quoting),
            },
            b'"' => return Err(InvalidKey::Quoting),
            byte => content.push(byte),
        }
    }
    Err(InvalidKey::Quoting)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Says why a value is no idempotency key; never repeats the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The value has no characters.
    #[error("the idempotency key is empty; it needs 1 to 255 characters")]
    Empty,
    /// The value has more than 255 characters.
    #[error("the idempotency key is longer than 255 characters")]
    TooLong,
    /// The value has a character outside visible ASCII.
    #[error(
        "the idempotency key has a character outside visible ASCII (letters, digits, and punctuation)"
    )]
    Character,
    /// The value begins with a quote but is no structured-field string.
    #[error(
        "the idempotency key begins with a quote but is not a well-formed quoted string (RFC 9651 section 3.3.3)"
    )]
    Quoting,
    /// The request has more than one field line with a key.
    #[error("the request has more than one idempotency key")]
    Several,
}

/// A value that can serve as an idempotency key, for `key = event.id`.
///
/// Implemented for strings, integers, and [`Uuid`]; for a newtype, return what its
/// inner value returns:
///
/// ```
/// # use std::borrow::Cow;
/// # use idem_runtime::KeyValue;
/// struct EventId(String);
///
/// impl KeyValue for EventId {
///     fn key_value(&self) -> Cow<'_, str> { self.0.key_value() }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an idempotency key",
    label = "expected a string, an integer, a `Uuid`, or a type that implements `KeyValue`",
    note = "a key in a header is named by `key = header(\"x-key\")`",
    note = "where `{Self}` is a newtype of yours, write `impl idem_runtime::KeyValue for {Self} {{ fn key_value(&self) -> std::borrow::Cow<'_, str> {{ idem_runtime::KeyValue::key_value(&self.0) }} }}`",
    note = "where it is another crate's, give its text, such as `key = address.to_string()`, or wrap it in a newtype"
)]
pub trait KeyValue {
    /// Returns the key: 1 to 255 characters of visible ASCII, equal for every
    /// delivery of the same message and different for each message.
    fn key_value(&self) -> Cow<'_, str>;
}

/// Implements a trait whose one method shows a value as text for the types
/// that identify things: strings, integers, UUIDs, and references to them.
macro_rules! impl_text_value {
    ($trait:ident :: $method:ident) => {
        impl_text_value!(@display $trait::$method: i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize Uuid);

        #[diagnostic::do_not_recommend]
        impl $trait for str {
            fn $method(&self) -> Cow<'_, str> {
                Cow::Borrowed(self)
            }
        }

        impl_text_value!(@text $trait::$method: String Box<str> std::sync::Arc<str> Cow<'_, str>);

        #[diagnostic::do_not_recommend]
        impl<T: $trait + ?Sized> $trait for &T {
            fn $method(&self) -> Cow<'_, str> {
                (**self).$method()
            }
        }
    };
    (@text $trait:ident :: $method:ident: $($type:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl $trait for $type {
            fn $method(&self) -> Cow<'_, str> {
                Cow::Borrowed(&**self)
            }
        }
    )*};
    (@display $trait:ident :: $method:ident: $($type:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl $trait for $type {
            fn $method(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        }
    )*};
}
pub(crate) use impl_text_value;

impl_text_value!(KeyValue::key_value);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &[u8]) -> Result<String, InvalidKey> {
        Key::from_field_value(value).map(|key| key.as_str().to_owned())
    }

    #[test]
    fn a_string_is_a_key_whoever_owns_it() {
        let text = "abc";
        let strings: [&dyn KeyValue; 5] = [
            &text,
            &text.to_owned(),
            &Box::<str>::from(text),
            &std::sync::Arc::<str>::from(text),
            &Cow::Borrowed(text),
        ];
        for string in strings {
            assert_eq!(string.key_value(), text);
        }
    }

    #[test]
    fn quoted_and_bare_spellings_are_one_key() {
        assert_eq!(read(b"\"8e03978e\""), read(b"8e03978e"));
        assert_eq!(read(br#""a\"b\\c""#), Ok(r#"a"b\c"#.to_owned()));
        assert_eq!(read(b"  abc\t"), Ok("abc".to_owned()));
    }

    #[cfg(feature = "client")]
    #[test]
    fn what_a_client_sends_is_read_as_the_same_key() {
        for key in ["abc", "a\"b", "\"7", "\"abc\"", "\"a\\b", "\\"] {
            let key = Key::new(key).expect("a key");
            let sent = key.to_field_value();
            assert_eq!(
                Key::from_field_value(sent.as_bytes()),
                Ok(key.clone()),
                "{sent}"
            );
        }
    }

    #[test]
    fn what_is_no_key_says_why() {
        let long = [b'k'; 256];
        for (value, why) in [
            (&b""[..], InvalidKey::Empty),
            (b"\"\"", InvalidKey::Empty),
            (&long, InvalidKey::TooLong),
            (b"a b", InvalidKey::Character),
            (b"\"a b\"", InvalidKey::Character),
            (b"a\0b", InvalidKey::Character),
            ("schl\u{fc}ssel".as_bytes(), InvalidKey::Character),
            (b"\xff", InvalidKey::Character),
            (b"\"abc", InvalidKey::Quoting),
            (b"\"abc\";p=1", InvalidKey::Quoting),
            (b"\"abc\", \"def\"", InvalidKey::Quoting),
            (br#""a\b""#, InvalidKey::Quoting),
            (b"\"", InvalidKey::Quoting),
        ] {
            assert_eq!(read(value), Err(why), "{value:?}");
        }
    }

    #[test]
    fn the_limits_themselves_are_keys() {
        assert!(read(b"k").is_ok());
        assert!(read(&[b'~'; 255]).is_ok());
    }

    proptest! {
        #[test]
        fn any_field_value_is_a_key_by_the_rules_or_none(
            value in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                "[ \t]{0,2}\"?[!-~ ]{0,4}(\\\\|\\\"|\"|[a-c]){0,6}\"?[ \t]{0,2}".prop_map(String::into_bytes),
                "\"?[a-c]{250,260}\"?".prop_map(String::into_bytes),
            ],
        ) {
            crate::fuzz::key(&value);
        }
    }
}
