#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[derive(idempotent)]
struct P;

fn main() {}
