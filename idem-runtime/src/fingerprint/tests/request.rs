use bytes::{Bytes, BytesMut};

use super::{FORM, Fingerprint, FingerprintedRequest, JSON, of_body};

fn request(body: &Bytes) -> FingerprintedRequest<'_> {
    FingerprintedRequest {
        method: "POST",
        target: "/payments?dry=1",
        content_type: Some(b"application/json"),
        body: Some(body),
    }
}

fn assert_all_differ(requests: &[FingerprintedRequest<'_>]) {
    let fingerprints: Vec<_> = requests.iter().map(Fingerprint::of_request).collect();
    for (index, left) in fingerprints.iter().enumerate() {
        for (other, right) in fingerprints[..index].iter().enumerate() {
            assert_ne!(left, right, "{index} and {other}");
        }
    }
}

#[test]
fn method_target_type_and_body_all_count() {
    let (body, other_body) = (Bytes::from("{\"a\":1}"), Bytes::from("{\"a\":2}"));
    let base = request(&body);
    assert_all_differ(&[
        base,
        request(&other_body),
        FingerprintedRequest {
            method: "PUT",
            ..base
        },
        FingerprintedRequest {
            target: "/payments?dry=0",
            ..base
        },
        FingerprintedRequest {
            target: "/payments",
            ..base
        },
        FingerprintedRequest {
            target: "/v2/payments?dry=1",
            ..base
        },
        FingerprintedRequest {
            content_type: Some(b"application/x+json"),
            ..base
        },
        FingerprintedRequest {
            content_type: Some(b"text/plain"),
            ..base
        },
        FingerprintedRequest {
            content_type: None,
            ..base
        },
        FingerprintedRequest { body: None, ..base },
    ]);
}

#[test]
fn parts_cannot_run_into_each_other() {
    let body = Bytes::from("x");
    let of = |method, target| FingerprintedRequest {
        method,
        target,
        content_type: None,
        body: Some(&body),
    };
    assert_all_differ(&[
        of("POST", "/a"),
        of("POST/", "a"),
        of("POS", "T/a"),
        of("", "POST/a"),
    ]);
    let (a, ab) = (Bytes::from("a"), Bytes::from("ab"));
    let of = |content_type, body| FingerprintedRequest {
        content_type: Some(content_type),
        body: Some(body),
        ..of("POST", "/")
    };
    assert_all_differ(&[of(b"xb", &a), of(b"x", &ab), of(b"xa", &Bytes::new())]);
}

#[test]
fn parameters_case_and_space_of_the_type_do_not_count() {
    let plain = of_body(JSON, "{\"a\":1}");
    for content_type in [
        "Application/JSON",
        " application/json ; charset=utf-8",
        "application/json;x",
    ] {
        assert_eq!(
            plain,
            of_body(content_type, "{ \"a\": 1.0 }"),
            "{content_type}"
        );
    }
}

#[test]
fn a_suffix_makes_a_type_json() {
    for content_type in [
        "application/vnd.example+json",
        "application/problem+JSON; v=1",
    ] {
        assert_eq!(
            of_body(content_type, "[1, 2]"),
            of_body(content_type, "[1,2.0]"),
            "{content_type}"
        );
        assert_ne!(
            of_body(content_type, "[1, 2]"),
            of_body(content_type, "[2,1]"),
            "{content_type}"
        );
    }
    for content_type in ["application/jsonx", "application/json+x", "text/json"] {
        assert_ne!(
            of_body(content_type, "[1, 2]"),
            of_body(content_type, "[1,2]"),
            "{content_type}"
        );
    }
}

#[test]
fn without_a_body_extractor_neither_type_nor_body_counts() {
    let body = Bytes::new();
    let base = FingerprintedRequest {
        body: None,
        ..request(&body)
    };
    let other_type = FingerprintedRequest {
        content_type: Some(b"text/plain"),
        ..base
    };
    assert_eq!(
        Fingerprint::of_request(&base),
        Fingerprint::of_request(&other_type)
    );
    let empty = FingerprintedRequest {
        content_type: None,
        body: Some(&body),
        ..base
    };
    assert_ne!(
        Fingerprint::of_request(&base),
        Fingerprint::of_request(&empty)
    );
}

#[test]
fn other_types_are_compared_byte_by_byte() {
    for content_type in [
        "",
        "text/plain",
        "application/octet-stream",
        "application/xml",
        "nonsense",
    ] {
        let bodies: [&[u8]; 6] = [b"", b"\0", b"a", b"b", b"a\xff", b"a\xfe"];
        for (index, left) in bodies.iter().enumerate() {
            assert_eq!(of_body(content_type, left), of_body(content_type, left));
            for right in &bodies[..index] {
                assert_ne!(
                    of_body(content_type, left),
                    of_body(content_type, right),
                    "{content_type}"
                );
            }
        }
    }
}

#[test]
fn a_broken_body_never_equals_a_sound_one_in_canonical_form() {
    // `["a",` would be what the canonical form begins with.
    for text in ["\"a\"", "{\"a\"1}", "[1,2,]", "#", "n", ""] {
        let sound = of_body(JSON, "[\"a\"]");
        assert_ne!(sound, of_body(JSON, text));
    }
    let sound = super::super::json::canonical(b"[1,2]").expect("it is JSON");
    assert_ne!(of_body(JSON, "[1,2]"), of_body(JSON, sound));
}

#[test]
fn a_form_is_its_decoded_pairs_in_order() {
    let base = of_body(FORM, "a=1&b=x+y&c=%C3%A9&d=");
    for same in [
        "a=1&b=x%20y&c=%c3%a9&d",
        "&a=1&&b=x+y&c=%C3%A9&d=&",
        "%61=%31&b=x+y&c=\u{e9}&d=",
    ] {
        assert_eq!(base, of_body(FORM, same), "{same}");
    }
    for other in [
        "b=x+y&a=1&c=%C3%A9&d=",
        "a=2&b=x+y&c=%C3%A9&d=",
        "a=1&b=x%2By&c=%C3%A9&d=",
        "a=1&b=x+y&c=e&d=",
        "a=1&b=x+y&c=%C3%A9",
        "a=1&b=x+y&c=%C3%A9&d=&d=",
        "a=1&b=x+y&c=%C3%A9&d=&=",
        "",
    ] {
        assert_ne!(base, of_body(FORM, other), "{other}");
    }
}

#[test]
fn a_form_tells_bytes_apart_that_are_no_text() {
    let values = [
        "%FF",
        "%FE",
        "%EF%BF%BD",
        "%",
        "%25",
        "%4",
        "%zz",
        "",
        "+",
        "%2B",
    ];
    for (index, left) in values.iter().enumerate() {
        for right in &values[..index] {
            // Only these two spell the same: a percent sign that escapes nothing is one.
            let same = (*left, *right) == ("%25", "%");
            let of = |value| of_body(FORM, format!("a={value}"));
            assert_eq!(of(left) == of(right), same, "{left} and {right}");
        }
    }
}

#[test]
fn a_form_splits_names_and_values_where_the_signs_are() {
    for (left, right) in [
        ("a=b=c", "a%3Db=c"),
        ("a=b", "ab="),
        ("a=b&c=d", "a=b%26c=d"),
        ("a&b", "a=b"),
        ("ab", "a&b"),
    ] {
        assert_ne!(
            of_body(FORM, left),
            of_body(FORM, right),
            "{left} and {right}"
        );
    }
    assert_eq!(of_body(FORM, "a=b=c"), of_body(FORM, "a=b%3Dc"));
}

#[test]
fn a_large_body_in_many_chunks_counts_to_its_last_byte() {
    for (content_type, head, tail) in [
        (JSON, "{\"a\":\"", "\"}"),
        (FORM, "a=", ""),
        ("text/plain", "", ""),
        (
            "multipart/form-data; boundary=B",
            "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n",
            "\r\n--B--\r\n",
        ),
    ] {
        let body = |last| {
            [
                head.as_bytes(),
                &vec![b'x'; 70 * 1024],
                &[last],
                tail.as_bytes(),
            ]
            .concat()
        };
        let whole = of_body(content_type, body(b'x'));
        let mut collected = BytesMut::new();
        for chunk in body(b'x').chunks(1_000) {
            collected.extend_from_slice(chunk);
        }
        assert_eq!(whole, of_body(content_type, collected), "{content_type}");
        assert_ne!(whole, of_body(content_type, body(b'y')), "{content_type}");
    }
}

#[test]
fn a_fingerprint_survives_storage_and_is_short_in_logs() {
    let fingerprint = of_body("text/plain", "x");
    assert_eq!(
        fingerprint,
        Fingerprint::from_bytes(*fingerprint.as_bytes())
    );
    let shown = format!("{:?}", Fingerprint::from_bytes([0xab; 32]));
    assert_eq!(shown, "Fingerprint(abababab…)");
}
