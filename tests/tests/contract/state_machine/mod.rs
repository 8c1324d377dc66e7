//! Random sequences of everything that can happen to a few keys, against a model that knows nothing
//! of databases: after each command the answer, the effects, and the records are the model's.

mod model;
mod system;

use proptest::prelude::*;
use proptest_state_machine::prop_state_machine;

use model::Machine;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 24,
        failure_persistence: None,
        max_shrink_iters: 100,
        ..ProptestConfig::default()
    }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    #[cfg_attr(
        not(feature = "postgres-server"),
        ignore = "needs PostgreSQL: run scripts/test"
    )]
    fn every_sequence_is_the_models_on_postgres(sequential 1..30 => Machine<0>);

    #[test]
    fn every_sequence_is_the_models_on_sqlite(sequential 1..30 => Machine<1>);
}
