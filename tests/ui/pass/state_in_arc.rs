#![deny(warnings)]

use std::sync::Arc;

use idem_ui::*;

#[idempotent(scope = "by_field", tenant = account.id, store = app.idempotency)]
async fn by_field(State(app): State<Arc<App>>, account: Account, _tx: &mut PgConnection) {
    drop(app);
}

#[idempotent(scope = "by_reference", tenant = shared, store = &app.idempotency)]
async fn by_reference(_tx: &mut PgConnection, State(app): State<Arc<App>>) {}

#[idempotent(scope = "whole", tenant = shared, store = idempotency)]
async fn whole(
    axum::Extension(idempotency): axum::Extension<Arc<Idempotency<Sqlite>>>,
    _tx: &mut SqliteConnection,
    body: String,
) -> String {
    body
}

fn main() {
    let _: Router<Arc<App>> = Router::new().route("/", post(by_field).put(by_reference).patch(whole));
}
