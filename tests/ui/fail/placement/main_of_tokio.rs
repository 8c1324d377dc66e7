#![allow(unused_variables)]

use idem_tests::ui::*;

#[idempotent(scope = "pay", tenant = shared)]
#[tokio::main]
async fn main() {}
