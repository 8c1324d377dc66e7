#![allow(dead_code, unused_variables)]

use idem_tests::ui::*;

#[derive(idempotent)]
struct P;

fn main() {}
