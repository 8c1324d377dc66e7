//! Random values.

use proptest::{collection::btree_map, prelude::*};

use super::reference::{Decimal, Value};

/// So few values that two of them are often the same or almost the same.
pub(super) fn few_values() -> impl Strategy<Value = Value> {
    let leaves = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        "-?[01]|0\\.1|10".prop_map(|text| Value::Number(Decimal::new(&text).expect("it is short"))),
        "[,\"\\\\]?".prop_map(Value::String),
    ];
    leaves.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            btree_map("a?", inner, 0..3).prop_map(Value::Object),
        ]
    })
}

/// Values of all kinds, with characters among their strings that need escapes.
pub(super) fn values() -> impl Strategy<Value = Value> {
    let names = "[ab\"\\\\é\u{0}]{0,2}";
    let leaves = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        numbers().prop_map(Value::Number),
        names.prop_map(Value::String),
        "\\PC{0,12}".prop_map(Value::String),
    ];
    leaves.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            btree_map(names, inner, 0..6).prop_map(Value::Object),
        ]
    })
}

fn numbers() -> impl Strategy<Value = Decimal> {
    let texts = prop_oneof![
        "-?[01]{1,3}(\\.[01]{1,3})?",
        "-?[0-9]{1,25}(\\.[0-9]{1,25})?"
    ];
    (texts, -40..40_i32).prop_map(|(digits, power)| {
        let text = format!("{digits}e{power}");
        Decimal::new(&text).expect("the power is small")
    })
}
