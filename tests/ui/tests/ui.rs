//! What the compiler says: each mistake gives one error, and what is documented
//! compiles. `TRYBUILD=overwrite` blesses the expected output.

#[test]
fn each_mistake_gives_one_error() {
    trybuild::TestCases::new().compile_fail("fail/*/*.rs");
}

#[test]
fn documented_handlers_compile() {
    trybuild::TestCases::new().pass("pass/*.rs");
}
