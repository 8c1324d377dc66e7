use bytes::Bytes;

use super::{
    Fingerprint, FingerprintedRequest,
    oracle::{Random, reference, spelling},
};

mod json;
mod multipart;
mod request;
mod values;
mod vectors;
mod work;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The fingerprint of a request that differs from others of its kind only in
/// type and body.
fn of_body(content_type: &str, body: impl AsRef<[u8]>) -> Fingerprint {
    Fingerprint::of_request(&FingerprintedRequest {
        method: "POST",
        target: "/payments",
        content_type: Some(content_type.as_bytes()),
        body: Some(&Bytes::copy_from_slice(body.as_ref())),
    })
}

fn of_json(text: impl AsRef<[u8]>) -> Fingerprint {
    of_body(JSON, text)
}
