//! What the handlers do, as the test that runs them says.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::gate::Gate;

/// What every handler of the test application does: run the statements, pass the gate, answer.
#[derive(Clone, Default)]
pub struct Script {
    /// Where a handler stands after its writes and before its answer.
    pub gate: Gate,
    part: Arc<Mutex<Part>>,
}

#[derive(Default)]
struct Part {
    statements: Vec<&'static str>,
    answer: Option<Arc<dyn Fn() -> Response + Send + Sync>>,
}

impl Script {
    /// Makes handlers answer this from now on. Without it they answer 201 and the id of the
    /// effect that they wrote.
    pub fn answer<R: IntoResponse>(&self, answer: impl Fn() -> R + Send + Sync + 'static) {
        self.part().answer = Some(Arc::new(move || answer().into_response()));
    }

    /// Makes the next handlers answer these, one after the other; the last one goes on.
    pub fn answer_in_turn<R: IntoResponse + 'static>(
        &self,
        answers: impl IntoIterator<Item = fn() -> R>,
    ) {
        let answers: Vec<_> = answers.into_iter().collect();
        let turn = AtomicUsize::new(0);
        self.answer(move || {
            let turn = turn.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
            answers[turn]()
        });
    }

    /// Makes handlers run these statements after they have written their effect, and ignore
    /// their errors.
    pub fn statements(&self, statements: impl IntoIterator<Item = &'static str>) {
        self.part().statements = statements.into_iter().collect();
    }

    pub(crate) fn current_statements(&self) -> Vec<&'static str> {
        self.part().statements.clone()
    }

    pub(crate) fn response(&self, effect: i64) -> Response {
        let answer = self.part().answer.clone();
        if let Some(answer) = answer {
            return answer();
        }
        let location = [("location", format!("/effects/{effect}"))];
        let body = Json(serde_json::json!({ "effect": effect }));
        (StatusCode::CREATED, location, body).into_response()
    }

    fn part(&self) -> MutexGuard<'_, Part> {
        // An answer may panic, but not while it is being set.
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}
