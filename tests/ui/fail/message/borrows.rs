#![allow(dead_code, unused_variables)]

use idem_ui::*;
use std::borrow::Cow;

#[idempotent(message, scope = "pay", tenant = "orders", key = event)]
async fn pay(tx: &mut PgConnection, event: Cow<'_, str>) -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
