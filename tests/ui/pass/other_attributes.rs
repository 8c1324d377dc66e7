#![deny(warnings, missing_docs)]
//! Attributes that stand beside `#[idempotent]`.

use idem_ui::*;
use tracing::instrument;

/// Documented above.
#[allow(clippy::unused_async)]
#[idempotent(scope = "docs", tenant = account.id)]
#[cfg(all())]
/// And below.
#[must_use]
#[inline]
pub async fn documented(account: Account, _tx: &mut PgConnection) {}

/// Not compiled.
#[idempotent(scope = "docs", tenant = nobody)]
#[cfg(any())]
pub async fn documented(account: Missing) {}

/// Sees the function as written.
#[idempotent(scope = "traced", tenant = account.id)]
#[instrument(skip_all, fields(id = account.id, scope = "traced", tenant = account.id))]
pub async fn traced_below(account: Account, _tx: &mut PgConnection, body: String) -> Result<String, ApiError> {
    Ok(body)
}

/// Also does.
#[tracing::instrument(skip_all, fields(id = account.id), err(Debug))]
#[idempotent(scope = "traced", tenant = account.id)]
pub async fn traced_above(account: Account, _tx: &mut PgConnection) -> Result<String, ApiError> {
    Err(ApiError)
}

/// Checks the generated function.
#[idempotent(scope = "debug", tenant = account.id)]
#[axum::debug_handler(state = App)]
pub async fn debug(account: Account, _tx: &mut PgConnection, _body: String) {}

/// Calls what is deprecated, as the lint level says.
#[idempotent(scope = "lints", tenant = account.id)]
#[expect(deprecated, unused_variables)]
#[cfg_attr(all(), doc = "Conditional.", instrument(skip_all))]
pub async fn lints(account: Account, tx: &mut PgConnection) {
    old();
}

#[deprecated]
fn old() {}

fn main() {
    let _: Router<App> = Router::new()
        .route("/a", post(documented).put(traced_below))
        .route("/b", post(traced_above).put(debug).patch(lints));
}
