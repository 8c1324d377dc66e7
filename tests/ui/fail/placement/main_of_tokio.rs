#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
#[tokio::main]
async fn main() {}
