//! What requests in flight take of a process, and that nothing of it stays.

use std::path::Path;

use bytes::Bytes;
use idem_tests::Kind;
use idem_tests::database::TestDatabase;
use idem_tests::process::{Door, ServerProcess};

use crate::until;

stamp!(
    postgres: large_bodies_in_flight_take_their_own_size_and_leave_nothing,
);

const REQUESTS: usize = 1_000;
/// So many at a time ask for one of the few connections; the others hold their claims by then.
const WAVE: usize = 50;
const BODY: usize = 256 * 1024;
/// What a request in flight may take beside what it brought: its connection with the buffers in
/// which it came, its task, and its lease. Less than a body: a second copy of it does not go in.
const BESIDE: usize = 224 * 1024;

async fn large_bodies_in_flight_take_their_own_size_and_leave_nothing(kind: Kind) {
    let database = TestDatabase::create(kind).await;
    let program = Path::new(env!("CARGO_BIN_EXE_idem-order-server"));
    let environment = [("DATABASE_URL", database.url()), ("LEASE_MS", "600000")];
    let server = ServerProcess::start(program, Path::new("."), &environment).await;
    let body = format!(r#"{{ "card": "card_ok", "note": "{}" }}"#, "x".repeat(BODY));
    let body = Bytes::from(body);
    let send = |n: usize| {
        let order = server.post("/orders").key(&format!("k-{n}"));
        order.json(body.clone()).start()
    };

    let point = Door::Point("claimed");
    server.close(point).await;
    let idle = server.memory("VmHWM");
    let mut running = Vec::new();
    for n in 0..REQUESTS {
        running.push(send(n));
        if running.len() % WAVE == 0 {
            server.until_arrived(point, running.len()).await;
        }
    }
    assert_eq!(in_flight(&server).await, REQUESTS.to_string());
    let most = server.memory("VmHWM") - idle;
    // Each body once, as the value that the handler's extractor made of it, and no copy of ours.
    let bound = REQUESTS * (BODY + BESIDE);
    println!("{most} bytes at most, of {bound} that may be");
    assert!(
        usize::try_from(most).is_ok_and(|most| most <= bound),
        "{most} bytes, more than {bound}"
    );

    server.open(point).await;
    for order in running {
        let status = order.answer().await.status;
        // So many at once may wait for a connection for too long.
        assert!(status == 201 || status == 503, "{status}");
    }
    let server = &server;
    until("nothing is in flight", || async move {
        in_flight(server).await == "0"
    })
    .await;
}

async fn in_flight(server: &ServerProcess) -> String {
    let answer = server.get("/in-flight").await;
    String::from_utf8_lossy(&answer.body).into_owned()
}
