#![allow(unused_variables)]

use idem_tests::ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn main() {}
