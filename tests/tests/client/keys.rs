//! Whose key it is, and what is not sent without one.

use idem_runtime::InvalidKey;
use idem_runtime::client::{GaveUp, Operation, OperationError};
use reqwest::Method;
use reqwest::header::HeaderName;
use uuid::Uuid;

use crate::server::{Fault, FaultyServer, answer};
use crate::{BODY, Outcome, QUICK, outcomes, payment};

fn request(server: &FaultyServer) -> reqwest::RequestBuilder {
    reqwest::Client::new().post(server.url()).body(BODY)
}

#[tokio::test]
async fn each_operation_has_a_key_of_its_own_before_it_is_sent() {
    let server = FaultyServer::start([]).await;
    let (one, two) = (payment(&server), payment(&server));
    let key = one.key().expect("a key").to_owned();
    assert_eq!(Uuid::parse_str(&key).expect("a UUID").get_version_num(), 4);
    assert_ne!(Some(&*key), two.key());
    assert!(!format!("{one:?}").contains(&key));
    assert_eq!(server.connections(), 0);

    let reply = one.send(&QUICK).await.expect("an answer");
    assert_eq!(reply.key(), Some(&*key));
    assert_eq!(server.the_one_key(), key);
}

#[tokio::test]
async fn a_key_of_the_callers_own_is_never_overwritten() {
    for value in ["order-17", "\"order-17\""] {
        let server = FaultyServer::start([Fault::ResetAfter]).await;
        let request = request(&server).header("Idempotency-Key", value);
        let operation = Operation::new(request).expect("an operation");
        assert_eq!(operation.key(), Some("order-17"));
        assert!(!format!("{operation:?}").contains("order-17"));
        operation.send(&QUICK).await.expect("an answer");
        assert_eq!(server.seen().len(), 2);
        // As the caller spelt it.
        assert_eq!(server.the_one_key(), value);
    }
}

#[tokio::test]
async fn a_key_goes_where_the_server_expects_it() {
    let header = HeaderName::from_static("webhook-id");
    let build = |server: &FaultyServer, own: Option<&str>| {
        let request = request(server).header("idempotency-key", "of no importance");
        let request = match own {
            Some(own) => request.header("webhook-id", own),
            None => request,
        };
        Operation::builder(request).key_header(header.clone())
    };
    let server = FaultyServer::start([Fault::ResetAfter, Fault::ResetAfter]).await;
    let new = build(&server, None).build().expect("a new key");
    let own = build(&server, Some("msg_1")).build().expect("its own key");
    let given = build(&server, None).key("msg_2").build();
    let given = given.expect("the key that is given");
    assert_eq!((own.key(), given.key()), (Some("msg_1"), Some("msg_2")));
    assert!(!format!("{own:?}").contains("msg_1"));
    let other = build(&server, Some("msg_1")).key("msg_2").build();
    assert!(matches!(
        other,
        Err(OperationError::Key(InvalidKey::Several))
    ));

    for operation in [new, own, given] {
        let key = operation.key().expect("a key").to_owned();
        let before = server.seen().len();
        operation.send(&QUICK).await.expect("an answer");
        for seen in &server.seen()[before..] {
            assert_eq!(seen.header("webhook-id"), [&*key]);
            assert_eq!(seen.header("idempotency-key"), ["of no importance"]);
        }
    }
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn another_key_than_the_requests_own_is_refused() {
    let server = FaultyServer::start([]).await;
    let own = || request(&server).header("idempotency-key", "\"order-17\"");
    let same = Operation::with_key(own(), "order-17").expect("the same key");
    assert_eq!(same.key(), Some("order-17"));
    let two = own().header("idempotency-key", "order-18");
    for refused in [Operation::with_key(own(), "order-18"), Operation::new(two)] {
        let error = refused.expect_err("two keys");
        assert!(
            matches!(error, OperationError::Key(InvalidKey::Several)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn what_is_no_key_is_refused() {
    let server = FaultyServer::start([]).await;
    let own = request(&server).header("idempotency-key", "order 17");
    for refused in [
        Operation::with_key(request(&server), "order 17"),
        Operation::new(own),
    ] {
        let error = refused.expect_err("no key");
        let why = matches!(error, OperationError::Key(InvalidKey::Character));
        assert!(why, "{error}");
    }
}

#[tokio::test]
async fn an_operation_is_resumed_after_a_restart() {
    let server = FaultyServer::start([Fault::ResetAfter, Fault::ResetAfter]).await;
    let persisted = {
        let error = payment(&server)
            .send(&QUICK.max_attempts(2))
            .await
            .expect_err("no answer");
        error.key().expect("a key").to_owned()
    };

    let resumed = Operation::with_key(request(&server), &persisted).expect("an operation");
    let reply = resumed.send(&QUICK).await.expect("an answer");
    assert_eq!(reply.key(), Some(&*persisted));
    assert_eq!(server.seen().len(), 3);
    assert_eq!(server.the_one_key(), persisted);
}

#[tokio::test]
async fn an_unsafe_request_without_a_key_is_sent_once() {
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        for fault in [Fault::ResetAfter, answer(503, &["retry-after: 0"], "")] {
            let server = FaultyServer::start([fault.clone()]).await;
            let request = reqwest::Client::new().request(method.clone(), server.url());
            let operation = Operation::without_key(request).expect("an operation");
            assert_eq!(operation.key(), None);
            let error = operation.send(&QUICK).await.expect_err("no decision");
            assert_eq!((error.reason(), error.key()), (GaveUp::NoKey, None));
            assert_eq!(
                (error.attempts().len(), server.connections()),
                (1, 1),
                "{method} {fault:?}"
            );
            assert!(server.seen()[0].header("idempotency-key").is_empty());
        }
    }
}

#[tokio::test]
async fn a_safe_request_is_retried_without_a_key() {
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        for make in [Operation::new, Operation::without_key] {
            let server = FaultyServer::start([Fault::ResetAfter]).await;
            let request = reqwest::Client::new().request(method.clone(), server.url());
            let operation = make(request).expect("an operation");
            let reply = operation.send(&QUICK).await.expect("an answer");
            assert_eq!(
                outcomes(reply.attempts())[1],
                Outcome::Answered(201),
                "{method}"
            );
            assert_eq!(reply.key(), None);
            let seen = server.seen();
            assert!(
                seen.len() == 2
                    && seen
                        .iter()
                        .all(|seen| seen.header("idempotency-key").is_empty()),
                "{seen:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_sent_again_is_refused_before_the_first_attempt() {
    let server = FaultyServer::start([]).await;
    let stream = || {
        let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(BODY)]);
        let body = reqwest::Body::wrap_stream(chunks);
        reqwest::Client::new().post(server.url()).body(body)
    };
    let form = reqwest::multipart::Form::new().text("amount", "500");
    let form = reqwest::Client::new().post(server.url()).multipart(form);
    for refused in [
        Operation::new(stream()),
        Operation::with_key(stream(), "order-17"),
        Operation::without_key(stream()),
        Operation::new(form),
    ] {
        let error = refused.expect_err("a stream");
        assert!(
            matches!(error, OperationError::BodyNotReplayable),
            "{error}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_request_that_cannot_be_built_is_refused() {
    let request = reqwest::Client::new().post("not an address");
    let error = Operation::new(request).expect_err("no address");
    assert!(matches!(error, OperationError::Request(_)), "{error}");
}
