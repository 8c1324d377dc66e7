//! The caller gets the whole body, whatever the client had to read of it.

use std::time::Duration;

use idem_runtime::client::AttemptOutcome;

use crate::server::{Fault, answer, problem_body};
use crate::{Outcome, QUICK, outcomes, pay};

/// The beginning of an answer whose body has this many bytes.
fn head(status: u16, content_type: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status} Word\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nx-node: 7\r\n\r\n"
    )
}

#[tokio::test]
async fn a_problem_that_was_looked_at_is_whole() {
    let body = problem_body(409, false);
    let json = [
        "content-type: Application/Problem+JSON",
        "x-node: 7",
        "x-node: 8",
    ];
    let (server, result) = pay([answer(409, &json, &body)], &QUICK).await;
    let response = result.expect("a decision").into_response();
    assert_eq!(response.content_length(), Some(body.len() as u64));
    assert_eq!(response.url().as_str(), format!("{}/", server.url()));
    assert!(response.remote_addr().is_some());
    let nodes: Vec<_> = response.headers().get_all("x-node").iter().collect();
    assert_eq!(nodes, ["7", "8"]);
    assert_eq!(response.text().await.expect("a body"), body);
}

#[tokio::test]
async fn a_problem_is_looked_at_even_if_nothing_is_buffered() {
    let json = ["content-type: application/problem+json"];
    let problem = answer(500, &json, &problem_body(500, false));
    let (server, result) = pay([problem], &QUICK.max_buffered(0)).await;
    let response = result.expect("a decision").into_response();
    assert_eq!(
        response.text().await.expect("a body"),
        problem_body(500, false)
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_response_that_is_cut_off_is_retried() {
    let beginning = head(201, "text/plain", 100) + "only the beginning";
    // As much as is buffered, and without the chunk that says that this is all.
    let no_end = "HTTP/1.1 201 Word\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwhole\r\n";
    for (cut, limit) in [(beginning, 1000), (no_end.to_owned(), 5)] {
        let policy = QUICK.max_buffered(limit);
        let (server, result) = pay([Fault::Send(cut.into_bytes())], &policy).await;
        let reply = result.expect("an answer");
        let lost = Outcome::Unanswered(AttemptOutcome::ConnectionLost);
        assert_eq!(outcomes(reply.attempts()), [lost, Outcome::Answered(201)]);
        assert_eq!(reply.key(), Some(&*server.the_one_key()));
        assert_eq!(reply.into_response().text().await.expect("a body"), "done");
    }
}

#[tokio::test]
async fn a_response_that_stops_is_retried() {
    let stopped = (head(201, "text/plain", 100) + "only the beginning").into_bytes();
    let policy = QUICK.attempt_timeout(Duration::from_secs(1));
    let (_server, result) = pay([Fault::SendAndHold(stopped)], &policy).await;
    let reply = result.expect("an answer");
    let timed_out = Outcome::Unanswered(AttemptOutcome::TimedOut);
    assert_eq!(
        outcomes(reply.attempts()),
        [timed_out, Outcome::Answered(201)]
    );
}

#[tokio::test]
async fn a_body_of_any_length_is_whole() {
    const LIMIT: usize = 1000;
    for length in [0, 1, LIMIT - 1, LIMIT, LIMIT + 1, 3_000_000] {
        let body = "0123456789".repeat(length / 10 + 1)[..length].to_owned();
        let (server, result) = pay([answer(200, &[], &body)], &QUICK.max_buffered(LIMIT)).await;
        let response = result.expect("an answer").into_response();
        assert_eq!(response.content_length(), Some(length as u64));
        assert_eq!(response.url().host_str(), Some("127.0.0.1"));
        assert!(response.text().await.expect("a body") == body, "{length}");
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn what_comes_after_the_buffer_is_the_callers_to_read() {
    let cut = (head(200, "text/plain", 500_000) + &"x".repeat(400_000)).into_bytes();
    let (server, result) = pay([Fault::Send(cut)], &QUICK.max_buffered(1000)).await;
    let response = result.expect("an answer").into_response();
    assert!(response.text().await.is_err());
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_event_stream_is_handed_over_at_once() {
    let begun = (head(200, "Text/Event-Stream; charset=utf-8", 100) + "data: 1\n\n").into_bytes();
    let (server, result) = pay([Fault::SendAndHold(begun)], &QUICK).await;
    let mut response = result.expect("an answer").into_response();
    let event = response.chunk().await.expect("a chunk").expect("an event");
    assert_eq!(event, "data: 1\n\n");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_replay_is_told_from_a_first_answer() {
    let replay = answer(201, &["idempotent-replayed: true"], "done");
    let (_server, result) = pay([replay], &QUICK).await;
    assert!(result.expect("an answer").is_replay());
    let (_server, result) = pay([], &QUICK).await;
    assert!(!result.expect("an answer").is_replay());
}

/// As of a server that keeps its failures too: they come again as they are.
#[tokio::test]
async fn a_replayed_failure_is_final() {
    for status in [408, 425, 429, 500, 503] {
        let replay = answer(
            status,
            &["idempotent-replayed: true", "retry-after: 1"],
            "no",
        );
        let (server, result) = pay([answer(status, &[], "no"), replay], &QUICK).await;
        let decided = result.expect("a decision");
        assert_eq!(
            (decided.status().as_u16(), decided.is_replay()),
            (status, true)
        );
        assert_eq!(server.connections(), 2);
    }
}
