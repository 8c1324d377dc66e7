//! What the compiler says: each mistake gives one error, and what is documented
//! compiles. `TRYBUILD=overwrite` blesses the expected output.

/// One test: what is to compile is built, what is not would only be checked, and for both the
/// dependencies would be compiled twice.
#[test]
fn each_mistake_gives_one_error_and_what_is_documented_compiles() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/fail/*/*.rs");
    cases.pass("ui/pass/*.rs");
}
