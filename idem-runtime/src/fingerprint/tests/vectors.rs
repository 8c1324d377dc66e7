//! Fingerprints that are stored in databases by now. One that changes without a
//! new version turns retries of finished requests into refusals. They were
//! computed from the description of the format, by another program.

use std::fmt::Write as _;

use bytes::Bytes;

use super::{Fingerprint, FingerprintedRequest};

fn hex(fingerprint: Fingerprint) -> String {
    let mut hex = String::new();
    for byte in fingerprint.as_bytes() {
        write!(hex, "{byte:02x}").expect("a string takes all");
    }
    hex
}

fn assert_request(content_type: Option<&[u8]>, body: Option<&[u8]>, expected: &str) {
    let body = body.map(Bytes::copy_from_slice);
    let fingerprint = Fingerprint::of_request(&FingerprintedRequest {
        method: "POST",
        target: "/v1/payments?dry=1",
        content_type,
        body: body.as_ref(),
    });
    let shown = body.as_deref().unwrap_or_default();
    assert_eq!(
        hex(fingerprint),
        expected,
        "{}",
        &shown[..shown.len().min(80)].escape_ascii()
    );
}

#[test]
fn stored_fingerprints_stay_valid() {
    let large = format!(
        "{{\"b\":\"{}\",\"a\":[{}10]}}",
        "x".repeat(2_000),
        "10,".repeat(599)
    );
    let multipart = b"--B\r\nContent-Type: text/plain\r\n\
        Content-Disposition: form-data; name=\"a\"; filename=\"b\"\r\n\r\nx\r\n\
        --B\r\nContent-Disposition: form-data; name=\"c\"\r\n\r\n\r\n--B--\r\n";
    assert_request(
        None,
        None,
        "9f8fe8e62764610bbeb7020629cd178195dabeebba0e84865846c582e8070a74",
    );
    assert_request(
        None,
        Some(b""),
        "145878b865ce0266ff68c0f149b74b4f4ba366159d8e5a990d21b6c6bbd632c8",
    );
    assert_request(
        Some(b"Text/Plain; charset=utf-8"),
        Some(b"a\xff"),
        "f85a0aca52912a72daf622655d7e9d6c098093628e355bb7ff0d1d8d28798076",
    );
    assert_request(
        Some(b"application/json"),
        Some(
            br#" {"b": [1, 2.50, -3e-2, 100, -0], "a": "\u00e9\"\\\n\/", "": {"x": null, "w": [true, false, {}]}}"#,
        ),
        "1d4636e52ed1b404e69569416d262ae367a191ad2f9ff36f7ff6c5dae5ec9b85");
    assert_request(
        Some(b"application/vnd.x+json"),
        Some(large.as_bytes()),
        "b5df5fe79d7a230c6bb123650e63cd72c1741917c2854d7384a77525bc0e8a97",
    );
    assert_request(
        Some(b"application/json"),
        Some(b"{\"a\":1,\"a\":2}"),
        "9ba358f0d07746c0dde12691b88996fadf6626af976d95f03e5c7b01ad33a551",
    );
    assert_request(
        Some(b"application/x-www-form-urlencoded"),
        Some(b"a=1&b=x+%C3%A9%ff&&c"),
        "2c0278330f45feb5961278c5d012a76b6bebfaded4dfa75dd1d4debc8aa108b8",
    );
    assert_request(
        Some(b"multipart/form-data; boundary=B"),
        Some(multipart),
        "613097fea31f9c36b917736944e6b8be9cb01790a5dc1b59de49cd6b2c07f598",
    );
    assert_request(
        Some(b"multipart/form-data; boundary=C"),
        Some(multipart),
        "5ae8fc5109d134b969107688bbb4467f4d846ec668ccb887dba490bfe47f0935",
    );
    // The longest array that is kept inline, and the shortest that is not.
    for (length, expected) in [
        (
            1_019,
            "99c3492bf2f4034b9370d3acc7057d86e7b5cbd84ba4b4c3ecabeb20fab91873",
        ),
        (
            1_020,
            "86089348f37c49c561cb88257846f11f6e729fa242d9e566794ee9f161d177ac",
        ),
    ] {
        let array = format!("[\"{}\"]", "x".repeat(length));
        assert_request(Some(b"application/json"), Some(array.as_bytes()), expected);
    }
    let value = Fingerprint::of_value(&(500, "usd")).expect("it is JSON");
    assert_eq!(
        hex(value),
        "dec4cb07560e9a9b774065a18439703319eb23cd25ccc393c9aa450ecc5abe25"
    );
}
