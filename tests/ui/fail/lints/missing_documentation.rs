//! One handler is documented.
#![deny(missing_docs)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = shared)]
pub async fn pay(_tx: &mut PgConnection) {}

/// Pays.
#[idempotent(scope = "pay", tenant = shared)]
pub async fn documented(_tx: &mut PgConnection) {}

fn main() {}
