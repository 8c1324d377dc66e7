#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
pub struct Pay;

fn main() {
    let _ = Pay;
}
