//! `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date.

use std::time::{Duration, SystemTime};

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName};

/// How long the server asks to wait; `None` when it does not, or cannot be understood.
///
/// A date is compared with the server's own `Date`, where there is one: the two clocks differ.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?;
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that is too large still says: not soon.
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let now = text(headers, &DATE)
        .and_then(|value| httpdate::parse_http_date(value).ok())
        .unwrap_or(now);
    // A date that has passed asks for no wait.
    Some(date.duration_since(now).unwrap_or_default())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    Some(headers.get(name)?.to_str().ok()?.trim_ascii())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NOON: &str = "Sun, 06 Nov 1994 12:00:00 GMT";

    fn read(retry_after_value: &str, date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(
            RETRY_AFTER,
            HeaderValue::from_str(retry_after_value).expect("a value"),
        );
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).expect("a value"));
        }
        retry_after(&headers, httpdate::parse_http_date(NOON).expect("a date"))
    }

    #[test]
    fn seconds_are_read() {
        assert_eq!(read("0", None), Some(Duration::ZERO));
        assert_eq!(read(" 120 ", None), Some(Duration::from_mins(2)));
        assert_eq!(
            read("99999999999999999999", None),
            Some(Duration::from_secs(u64::MAX))
        );
    }

    #[test]
    fn every_form_of_a_date_is_read() {
        for date in [
            "Sun, 06 Nov 1994 12:00:07 GMT",
            "Sunday, 06-Nov-94 12:00:07 GMT",
            "Sun Nov  6 12:00:07 1994",
        ] {
            assert_eq!(read(date, None), Some(Duration::from_secs(7)), "{date}");
        }
    }

    #[test]
    fn a_date_is_counted_on_the_servers_clock() {
        let date = "Mon, 07 Nov 1994 00:00:10 GMT";
        let served = Some("Mon, 07 Nov 1994 00:00:00 GMT");
        assert_eq!(read(date, served), Some(Duration::from_secs(10)));
        assert_eq!(
            read(date, Some("yesterday")),
            Some(Duration::from_secs(12 * 3600 + 10))
        );
    }

    #[test]
    fn a_date_that_has_passed_asks_for_no_wait() {
        assert_eq!(
            read("Sun, 06 Nov 1994 11:59:59 GMT", None),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn what_cannot_be_understood_asks_for_nothing() {
        for value in ["", "-1", "+1", "1.5", "1s", "soon", "1, 2", "0x10"] {
            assert_eq!(read(value, None), None, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), SystemTime::UNIX_EPOCH), None);
    }
}
