//! Where a test stops requests and answers on their way.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::gate::Gate;

/// The doors that a test has around the router.
#[derive(Clone, Debug, Default)]
pub struct Doors {
    /// Where requests arrive; always open.
    pub entered: Gate,
    /// Where an answer waits that is ready to leave.
    pub answer: Gate,
    /// Where those arrive whose client left before the answer.
    pub departed: Gate,
}

pub(super) async fn pass_doors(
    State(doors): State<Doors>,
    request: Request,
    next: Next,
) -> Response {
    doors.entered.arrive();
    let mut leaving = Leaving {
        departed: doors.departed,
        answered: false,
    };
    let response = next.run(request).await;
    doors.answer.pass().await;
    leaving.answered = true;
    response
}

/// Notices that the server dropped the request's future, as it does when the client leaves.
struct Leaving {
    departed: Gate,
    answered: bool,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if !self.answered {
            self.departed.arrive();
        }
    }
}
