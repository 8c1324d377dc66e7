#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
async fn main() {}
