//! The lease, exhaustively: every order in which three workers, the clock, a sweep, and an operator
//! can take their steps, with a crash or a pause at any of them.
//!
//! `tables.rs` has the statements next to their SQL, `moves.rs` who does what with them,
//! `world.rs` what must hold, and `search.rs` looks at every world. No database: that the
//! statements do what the table says is for the suite `leased`.

mod moves;
mod search;
mod tables;
mod world;

use search::{Found, search};
use tables::Protection;
use world::{Protocol, Violation};

const RESUMES: Protocol = Protocol {
    without: None,
    reconciles: false,
    is_operated: false,
};

const RECONCILES: Protocol = Protocol {
    reconciles: true,
    ..RESUMES
};

const OPERATED: Protocol = Protocol {
    is_operated: true,
    ..RESUMES
};

#[track_caller]
fn assert_holds(found: &Found, but: &[Violation]) {
    let violations: Vec<_> = found.violations.keys().copied().collect();
    assert_eq!(violations, but, "{:#?}", found.violations);
    assert!(found.worlds > 10_000, "only {} worlds", found.worlds);
}

/// The protocol without one protection has a violation, and this is the shortest way to it.
#[track_caller]
fn assert_breaks(protocol: Protocol, protection: Protection, violation: Violation, way: &[&str]) {
    let broken = Protocol {
        without: Some(protection),
        ..protocol
    };
    let found = search(broken, Some(violation));
    let shortest = found.violations.get(&violation);
    assert_eq!(shortest.expect("a violation"), way);
}

#[test]
fn nothing_promised_breaks_when_unfinished_steps_resume() {
    let found = search(RESUMES, None);
    assert_holds(&found, &[Violation::CalledTwice]);
    let must_happen = [
        "CLAIM",
        "RENEW",
        "RENEW in a step",
        "RENEW in a step refused",
        "BEGIN_STEP",
        "END_STEP",
        "END_STEP once more",
        "FINISH",
        "FINISH refused",
        "RELEASE",
        "RELEASE refused",
        "SWEEP",
        "REPLAY",
        "answers",
        "answers 409",
        "answers for its successor",
        "crash",
        "session ends",
    ];
    for transition in must_happen {
        assert!(found.transitions.contains(transition), "no {transition}");
    }
}

#[test]
fn an_unfinished_call_is_not_made_again_when_it_is_reconciled() {
    let found = search(RECONCILES, None);
    assert_holds(&found, &[]);
    assert!(found.transitions.contains("CLAIM, PARK"), "nothing parks");
}

#[test]
fn an_operator_breaks_nothing_but_may_have_a_call_made_again() {
    let reconciles = Protocol {
        reconciles: true,
        ..OPERATED
    };
    for protocol in [OPERATED, reconciles] {
        let found = search(protocol, None);
        assert_holds(&found, &[Violation::CalledTwice]);
        for transition in ["SETTLE free", "SETTLE done"] {
            assert!(found.transitions.contains(transition), "no {transition}");
        }
    }
}

#[test]
fn an_outside_call_may_be_made_again_under_the_same_derived_key() {
    let found = search(RESUMES, Some(Violation::CalledTwice));
    let way = &found.violations[&Violation::CalledTwice];
    let expected = [
        "first CLAIM",
        "first RENEW in a step",
        "first BEGIN_STEP",
        "first calls",
        "clock lease is over",
        "second CLAIM",
        "second RENEW in a step",
        "second BEGIN_STEP",
        "second calls",
    ];
    assert_eq!(*way, expected);
}

#[test]
fn without_the_fence_of_finish_two_clients_get_different_answers() {
    assert_breaks(
        RESUMES,
        Protection::FinishFence,
        Violation::TwoAnswers,
        &[
            "first CLAIM",
            "clock lease is over",
            "second CLAIM",
            "first RENEW in a step refused",
            "first FINISH",
            "first answers",
            "second RENEW in a step refused",
            "second FINISH",
            "second answers",
        ],
    );
}

#[test]
fn without_the_fence_of_release_a_stale_owner_frees_the_lease_of_the_current_one() {
    assert_breaks(
        RESUMES,
        Protection::ReleaseFence,
        Violation::StaleOwnerWrites,
        &[
            "first CLAIM",
            "first fails",
            "clock lease is over",
            "second CLAIM",
            "first RELEASE",
        ],
    );
}

#[test]
fn without_the_fence_of_steps_a_stale_owner_records_what_the_current_one_is_about_to_do() {
    assert_breaks(
        RESUMES,
        Protection::StepFence,
        Violation::StaleOwnerWrites,
        &[
            "first CLAIM",
            "first RENEW in a step",
            "first BEGIN_STEP",
            "first calls",
            "clock lease is over",
            "second CLAIM",
            "first no RENEW in a step",
            "first END_STEP",
        ],
    );
}

#[test]
fn without_the_fence_of_steps_local_writes_happen_twice() {
    assert_breaks(
        RESUMES,
        Protection::StepFenceAndFirstResult,
        Violation::LocalWritesTwice,
        &[
            "first CLAIM",
            "first RENEW in a step",
            "first BEGIN_STEP",
            "first calls",
            "first RENEW in a step",
            "first END_STEP",
            "clock lease is over",
            "second CLAIM",
            "first no RENEW in a step",
            "first END_STEP",
            "second RENEW in a step",
            "second END_STEP",
        ],
    );
}

#[test]
fn by_the_attempt_alone_an_owner_from_before_the_sweep_passes_for_the_new_one() {
    assert_breaks(
        RESUMES,
        Protection::CreatedInFence,
        Violation::AnswerIsNotStored,
        &[
            "first CLAIM",
            "clock lease is over",
            "clock ttl is over",
            "sweep SWEEP",
            "first RENEW in a step refused",
            "second CLAIM",
            "first FINISH",
            "first answers",
        ],
    );
}

#[test]
fn by_the_attempt_alone_a_result_behind_the_fence_need_not_be_the_owners_own() {
    assert_breaks(
        RESUMES,
        Protection::CreatedInFence,
        Violation::ForeignResult,
        &[
            "first CLAIM",
            "first RENEW in a step",
            "first BEGIN_STEP",
            "first calls",
            "clock lease is over",
            "clock ttl is over",
            "second CLAIM",
            "first RENEW in a step",
            "first END_STEP",
            "second RENEW in a step",
            "second BEGIN_STEP once more",
            "second calls",
            "second RENEW in a step",
            "second END_STEP once more",
        ],
    );
}

#[test]
fn by_the_attempt_alone_a_late_heartbeat_renews_the_lease_of_the_next_owner() {
    assert_breaks(
        RESUMES,
        Protection::CreatedInFence,
        Violation::StaleOwnerWrites,
        &[
            "first CLAIM",
            "first fails",
            "first RELEASE",
            "second CLAIM",
            "first RENEW",
        ],
    );
}

#[test]
fn a_late_heartbeat_holds_a_released_key_unless_the_fence_asks_for_a_lease() {
    assert_breaks(
        RESUMES,
        Protection::HeldInFence,
        Violation::StaleOwnerWrites,
        &[
            "first CLAIM",
            "first RENEW in a step",
            "first BEGIN_STEP, error",
            "first RELEASE",
            "first RENEW",
        ],
    );
}

#[test]
fn an_owner_takes_the_outcome_of_an_operator_for_its_own_unless_settling_is_an_attempt() {
    assert_breaks(
        OPERATED,
        Protection::AttemptOfSettle,
        Violation::AnswerIsNotStored,
        &[
            "first CLAIM",
            "clock lease is over",
            "operator SETTLE done",
            "first RENEW in a step refused",
            "first FINISH refused",
            "first answers",
        ],
    );
}

/// Whoever changes a condition of the SQL comes by here, and changes the model with it.
#[test]
fn the_model_has_the_conditions_of_the_statements() {
    let source = include_str!("../../../idem-runtime/src/store/lease/statements.rs");
    let conditions = [
        // CLAIM
        "where k.state <> 4 and (k.locked_until is null or k.locked_until <= {now}) \\\n\
         and (k.expires_at <= {now} or (k.state = 1 and k.fingerprint = excluded.fingerprint))",
        // The fence
        "and attempt = $4 and {created} = $5 and state = 1 and locked_until is not null",
        // FORGET
        "and attempt = $4 and {created} = $5 and state = 1 and locked_until is null \\\n\
         and not exists (select 1 from {steps} as s",
        // BEGIN_STEP
        "attempt = excluded.attempt, begun_at = excluded.begun_at where s.result is null",
        // END_STEP
        "completed_at = excluded.completed_at \\\nwhere s.result is null",
        // SETTLE
        "where tenant = $1 and scope = $2 and key = $3 and state in (1, 4) \\\n\
         and (locked_until is null or locked_until <= {now})",
    ];
    for condition in conditions {
        assert!(source.contains(condition), "no longer there: {condition}");
    }
    for fenced in ["RENEW", "FINISH", "RELEASE", "PARK"] {
        let statement = source
            .split_once(&format!("const {fenced}: &str ="))
            .expect("it")
            .1;
        assert!(statement.trim_start().starts_with("fenced!"), "{fenced}");
    }
}
