#![deny(warnings, missing_docs)]
//! Each attribute above `#[idempotent]`; `other_attributes` has them below.

use idem_ui::*;

/// Documented.
#[cfg(all())]
#[allow(dead_code)]
#[expect(unused_variables)]
#[idempotent(scope = "a", tenant = account.id)]
pub async fn above(account: Account, tx: &mut PgConnection) {}

/// Documented.
#[deprecated]
#[idempotent(scope = "b", tenant = account.id)]
pub async fn deprecated_above(account: Account, _tx: &mut PgConnection) {}

/// Documented.
#[idempotent(scope = "b", tenant = account.id)]
#[deprecated]
pub async fn deprecated_below(account: Account, _tx: &mut PgConnection) {}

/// Not there.
#[cfg(any())]
#[idempotent(scope = "c", tenant = nobody)]
pub async fn absent(account: Missing) {}

#[expect(deprecated)]
fn main() {
    let _: Router<App> = Router::new()
        .route("/a", post(above))
        .route("/b", post(deprecated_above).put(deprecated_below));
}
