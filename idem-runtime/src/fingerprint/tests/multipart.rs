use super::{Fingerprint, of_body};

struct Part<'a>(&'a str, &'a [u8]);

const NAME: &str = "Content-Disposition: form-data; name=\"name\"";
const FILE: &str =
    "Content-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png";

fn body(boundary: &str, parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for Part(headers, content) in parts {
        body.extend_from_slice(format!("--{boundary}\r\n{headers}\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

fn of(boundary: &str, parts: &[Part<'_>]) -> Fingerprint {
    let content_type = format!("multipart/form-data; boundary={boundary}");
    of_body(&content_type, body(boundary, parts))
}

#[test]
fn a_new_boundary_is_the_same_request() {
    let parts = [Part(NAME, b"Ada"), Part(FILE, b"\x89PNG\r\n--\0")];
    let first = of("one", &parts);
    assert_eq!(first, of("----WebKitFormBoundary7MA4YWxkTrZu0gW", &parts));
    let quoted = of_body(
        "Multipart/Form-Data; charset=utf-8; boundary=\"a b\"",
        body("a b", &parts),
    );
    assert_eq!(first, quoted);
}

#[test]
fn header_names_are_read_without_case_and_order() {
    let base = of("B", &[Part(FILE, b"x")]);
    let other = "content-type: image/png\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.png\"";
    assert_eq!(base, of("B", &[Part(other, b"x")]));
}

#[test]
fn other_parts_are_another_request() {
    let base = of("B", &[Part(NAME, b"Ada"), Part(FILE, b"12")]);
    let renamed = FILE.replace("a.png", "b.png");
    let retyped = FILE.replace("image/png", "image/jpeg");
    let untyped = FILE.replace("\r\nContent-Type: image/png", "");
    let other_field = NAME.replace("\"name\"", "\"nick\"");
    let encoded = format!("{NAME}\r\nContent-Transfer-Encoding: base64");
    for (index, parts) in [
        &[Part(NAME, b"Ada"), Part(FILE, b"13")][..],
        &[Part(NAME, b"Ada"), Part(FILE, b"12\r\n")],
        &[Part(NAME, b"Bob"), Part(FILE, b"12")],
        &[Part(NAME, b"Ada"), Part(&renamed, b"12")],
        &[Part(NAME, b"Ada"), Part(&retyped, b"12")],
        &[Part(NAME, b"Ada"), Part(&untyped, b"12")],
        &[Part(&other_field, b"Ada"), Part(FILE, b"12")],
        &[Part(&encoded, b"Ada"), Part(FILE, b"12")],
        &[Part(FILE, b"12"), Part(NAME, b"Ada")],
        &[Part(NAME, b"Ada")],
        &[Part(NAME, b"Ada"), Part(FILE, b"12"), Part(NAME, b"")],
        &[],
    ]
    .into_iter()
    .enumerate()
    {
        assert_ne!(base, of("B", parts), "{index}");
    }
}

#[test]
fn names_that_are_no_text_stay_apart() {
    let of = |byte| {
        let mut body = body(
            "B",
            &[Part("Content-Disposition: form-data; name=\"?\"", b"x")],
        );
        let at = body
            .iter()
            .position(|&byte| byte == b'?')
            .expect("it is there");
        body[at] = byte;
        of_body("multipart/form-data; boundary=B", body)
    };
    assert_ne!(of(0xff), of(0xfe));
}

#[test]
fn what_cannot_be_read_as_parts_counts_as_raw_bytes() {
    let sound = body("B", &[Part(NAME, b"Ada")]);
    let mut cut = sound.clone();
    cut.truncate(sound.len() - 6);
    let many_headers = body("B", &[Part("a: b\r\n".repeat(40).trim_end(), b"x")]);
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=C",
        "multipart/form-data; boundary=B",
    ] {
        for broken in [
            &b""[..],
            b"--B",
            b"--B\r\n",
            b"--B\r\n\r\n",
            b"--B\r\nx\r\n\r\n",
            b"{}",
            &cut,
            &many_headers,
        ] {
            let with_more = [broken, b" "].concat();
            assert_ne!(
                of_body(content_type, broken),
                of_body(content_type, with_more),
                "{content_type}"
            );
        }
    }
    let (mut one, mut other) = (cut.clone(), cut);
    one.extend_from_slice(b"\xff");
    other.extend_from_slice(b"\xfe");
    let of = |body| of_body("multipart/form-data; boundary=B", body);
    assert_ne!(of(one), of(other));
}

#[test]
fn nothing_beside_the_parts_is_skipped() {
    let of = |body: &str| of_body("multipart/form-data; boundary=B", body);
    let part = "--B\r\nA: b\r\n\r\nx\r\n";
    let bodies = [
        format!("{part}--B--"),
        format!("{part}--B--\r\n"),
        format!("{part}--B--\r\n\r\n"),
        format!("{part}--B--after"),
        format!("{part}--B--after--B--"),
        format!("{part}--B--after\r\n--B--"),
        format!("{part}--B--other\r\n--B--"),
        format!("before\r\n{part}--B--"),
        format!("\r\n{part}--B--"),
        format!("--B--\r\n{part}--B--"),
        "--B--".to_owned(),
        "--B--\r\n".to_owned(),
        "--B----B--".to_owned(),
    ];
    for (index, left) in bodies.iter().enumerate() {
        for right in &bodies[..index] {
            assert_ne!(of(left), of(right), "{left:?} and {right:?}");
        }
    }
    // What the parser takes no notice of, in the place of `?`.
    for skipping in [
        "--B\r\n\r\n?\r\n\r\nx\r\n--B--",
        "--B\r\nA: b\n\n?\r\n\r\nx\r\n--B--",
        "--B\r\n\n?\r\n\r\nx\r\n--B--",
        "--B\r\nA: ?\r\nA: b\r\n\r\nx\r\n--B--",
    ] {
        let [one, other] = ["1", "2"].map(|skipped| of(&skipping.replace('?', skipped)));
        assert_ne!(one, other, "{skipping:?}");
    }
    let empty = of_body("multipart/form-data; boundary=C", "--C--\r\n");
    assert_eq!(of("--B--\r\n"), empty);
}

#[test]
fn an_unreadable_boundary_does_not_stop_the_body_from_counting() {
    for content_type in [
        "multipart/form-data; boundary=\"",
        "multipart/form-data; =",
        "multipart/form-data; boundary=\u{e9}",
    ] {
        assert_ne!(
            of_body(content_type, "a"),
            of_body(content_type, "b"),
            "{content_type}"
        );
    }
}
