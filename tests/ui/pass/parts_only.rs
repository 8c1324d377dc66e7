#![deny(warnings)]

use axum::extract::{Path, Query};
use idem_ui::*;

#[idempotent(scope = "payments.cancel", tenant = account.id)]
async fn cancel(
    account: Account,
    Path((id, part)): Path<(i64, String)>,
    _tx: &mut PgConnection,
    Query(query): Query<Payment>,
) -> String {
    format!("{id} {part} {} {}", query.amount, account.id)
}

fn main() {
    let _: Router<App> = Router::new().route("/{id}/{part}", post(cancel));
}
