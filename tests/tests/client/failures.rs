//! Each way of failing, in turn: how many attempts, under which key, to what end.

use std::time::Duration;

use idem_runtime::client::{AttemptOutcome, GaveUp};
use tokio::net::TcpSocket;

use crate::server::{Fault, FaultyServer, answer, problem};
use crate::{BODY, Outcome, QUICK, outcomes, pay, payment};

/// Fails twice and then succeeds: three attempts, all alike, and the last one's answer.
async fn assert_retried(fault: Fault, outcome: Outcome) {
    let policy = QUICK.attempt_timeout(Duration::from_secs(1));
    let (server, result) = pay([fault.clone(), fault.clone()], &policy).await;
    let reply = result.unwrap_or_else(|error| panic!("{error} after {fault:?}"));

    let attempts = outcomes(reply.attempts());
    assert_eq!(attempts.len(), 3, "{attempts:?} after {fault:?}");
    assert!(
        attempts[0] == outcome && attempts[1] == outcome,
        "{attempts:?} after {fault:?}"
    );
    assert_eq!(attempts[2], Outcome::Answered(201));
    assert_eq!(server.connections(), 3, "{fault:?}");

    let seen = server.seen();
    let read = if matches!(fault, Fault::ResetBefore) {
        1
    } else {
        3
    };
    assert_eq!(seen.len(), read, "{fault:?}");
    assert!(seen.iter().all(|seen| seen.body == BODY), "{seen:?}");
    assert_eq!(Some(&*server.the_one_key()), reply.key());
    assert_eq!(reply.into_response().text().await.expect("a body"), "done");
}

/// Decides at once: one attempt, and its answer.
async fn assert_final(fault: Fault, status: u16) {
    let (server, result) = pay([fault.clone()], &QUICK).await;
    let reply = result.unwrap_or_else(|error| panic!("{error} after {fault:?}"));
    assert_eq!(
        outcomes(reply.attempts()),
        [Outcome::Answered(status)],
        "{fault:?}"
    );
    assert_eq!(server.connections(), 1, "{fault:?}");
}

#[tokio::test]
async fn a_lost_connection_is_retried() {
    let lost = || Outcome::Unanswered(AttemptOutcome::ConnectionLost);
    assert_retried(Fault::ResetBefore, lost()).await;
    assert_retried(Fault::ResetAfter, lost()).await;
    assert_retried(Fault::CloseAfter, lost()).await;
}

#[tokio::test]
async fn what_is_no_http_is_retried() {
    let garbage = Fault::Send(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec());
    assert_retried(garbage, Outcome::Unanswered(AttemptOutcome::ConnectionLost)).await;
}

#[tokio::test]
async fn a_time_out_is_retried() {
    let timed_out = Outcome::Unanswered(AttemptOutcome::TimedOut);
    assert_retried(Fault::Silence, timed_out).await;
}

#[tokio::test]
async fn each_transient_status_is_retried() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        assert_retried(answer(status, &[], "later"), Outcome::Answered(status)).await;
        assert_retried(problem(status, true), Outcome::Answered(status)).await;
    }
}

#[tokio::test]
async fn a_request_in_progress_is_retried() {
    assert_retried(problem(409, true), Outcome::Answered(409)).await;
    let told = answer(409, &["retry-after: 0"], "busy");
    assert_retried(told, Outcome::Answered(409)).await;
}

#[tokio::test]
async fn each_other_status_is_final() {
    for status in [
        200, 204, 304, 400, 401, 402, 403, 404, 405, 409, 410, 412, 413, 422, 428, 501, 505,
    ] {
        assert_final(answer(status, &[], ""), status).await;
    }
    for status in [400, 422] {
        assert_final(problem(status, true), status).await;
        assert_final(answer(status, &["retry-after: 0"], ""), status).await;
    }
}

#[tokio::test]
async fn a_problem_that_is_not_retryable_is_final() {
    // 409 needs-reconciliation and response-not-kept, 500 ended-by-handler.
    for status in [409, 429, 500, 503] {
        assert_final(problem(status, false), status).await;
    }
}

#[tokio::test]
async fn only_a_problem_says_whether_to_retry() {
    let body = crate::server::problem_body(500, false);
    let json = answer(500, &["content-type: application/json"], &body);
    assert_retried(json, Outcome::Answered(500)).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried_and_the_operation_can_be_sent_again() {
    // Bound, so that nobody else gets the port, and not listening yet.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("a free port");
    let url = format!("http://{}", socket.local_addr().expect("an address"));
    let request = reqwest::Client::new().post(url).body(BODY);
    let operation = idem_runtime::client::Operation::new(request).expect("an operation");
    let key = operation.key().expect("a key");

    let error = operation
        .send(&QUICK.max_attempts(4))
        .await
        .expect_err("nobody listens");
    assert_eq!(error.reason(), GaveUp::Attempts);
    assert_eq!(error.key(), Some(key));
    let refused = || Outcome::Unanswered(AttemptOutcome::NotConnected);
    assert_eq!(
        outcomes(error.attempts()),
        [refused(), refused(), refused(), refused()]
    );
    assert!(std::error::Error::source(&error).is_some());

    let server = FaultyServer::on(socket.listen(16).expect("listens"), []);
    let reply = operation.send(&QUICK).await.expect("an answer");
    assert_eq!((reply.status().as_u16(), reply.attempts().len()), (201, 1));
    assert_eq!(server.the_one_key(), key);
}

#[tokio::test]
async fn the_last_answer_is_in_the_error() {
    let unavailable = answer(503, &["x-node: 7"], "closed until noon");
    let (server, result) = pay(vec![unavailable; 9], &QUICK.max_attempts(3)).await;
    let error = result.expect_err("the attempts are used up");
    assert_eq!(error.reason(), GaveUp::Attempts);
    assert_eq!(server.connections(), 3);
    assert_eq!(error.key(), Some(&*server.the_one_key()));
    let one = || Outcome::Answered(503);
    assert_eq!(outcomes(error.attempts()), [one(), one(), one()]);
    assert_eq!(
        error.to_string(),
        "gave up after 3 attempts: the attempts are used up; the last was answered with 503 Service Unavailable"
    );
    let shown = format!("{error:?}");
    assert!(!shown.contains(error.key().expect("a key")), "{shown}");

    assert_eq!(
        error.response().expect("a response").headers()["x-node"],
        "7"
    );
    let response = error.into_response().expect("a response");
    assert_eq!(response.text().await.expect("a body"), "closed until noon");
}

#[tokio::test]
async fn redirects_without_an_end_are_not_tried_again() {
    let circle = answer(307, &["location: /"], "");
    let (server, result) = pay(vec![circle; 50], &QUICK).await;
    let error = result.expect_err("no answer");
    assert_eq!(error.reason(), GaveUp::Permanent);
    assert_eq!(
        outcomes(error.attempts()),
        [Outcome::Unanswered(AttemptOutcome::Failed)]
    );
    // They are all one attempt, and have the key too.
    assert_eq!(server.the_one_key(), error.key().expect("a key"));
}

#[tokio::test]
async fn an_operation_that_is_dropped_can_be_sent_again() {
    let server = FaultyServer::start([Fault::Silence]).await;
    let operation = payment(&server);
    let patience = Duration::from_millis(100);
    assert!(
        tokio::time::timeout(patience, operation.send(&QUICK))
            .await
            .is_err()
    );

    let reply = operation.send(&QUICK).await.expect("an answer");
    assert_eq!(reply.attempts().len(), 1);
    assert_eq!(Some(&*server.the_one_key()), operation.key());
}
