#![deny(warnings)]

use std::time::Duration;

use axum::Extension;
use idem_ui::*;

const SCOPE: &str = "payments.create";

fn plan_ttl(account: &Account) -> Duration {
    Duration::from_secs(account.id.unsigned_abs())
}

#[idempotent(
    scope = SCOPE,
    tenant = account.id,
    key = header("Webhook-Id"),
    ttl = "7d 30m",
    required = false,
    wait = "1500ms",
    timeout = "2m",
    record = "success",
    max_response = "64KiB",
)]
async fn constants(account: Account, _tx: &mut PgConnection) {}

#[idempotent(
    scope = self::SCOPE,
    tenant = format!("account-{}", account.id),
    key = event.currency,
    fingerprint = (event.amount, [event.currency, event.currency], (account.id + 1, 2)),
    ttl = plan_ttl(account),
)]
async fn expressions(account: Account, _tx: &mut PgConnection, Json(event): Json<Payment>) -> Json<Payment> {
    Json(event)
}

#[idempotent(scope = "captured", tenant = format!("{id}"), key = currency, fingerprint = amount)]
async fn captured(
    Account { id }: Account,
    _tx: &mut PgConnection,
    Json(Payment { amount, currency }): Json<Payment>,
) {
}

async fn find(account: &Account) -> String {
    account.id.to_string()
}

#[idempotent(scope = "awaited", tenant = find(account).await, key = account.id.to_string())]
async fn awaited(account: Account, _tx: &mut PgConnection) {}

/// An argument is seen by reference.
#[idempotent(scope = "kept", tenant = account.id, ttl = *keep)]
async fn kept(account: Account, Extension(keep): Extension<Duration>, _tx: &mut PgConnection) {}

/// A macro awaits what it does not show.
#[idempotent(scope = "joined", tenant = tokio::join!(find(account)).0, key = account.id)]
async fn joined(account: Account, _tx: &mut PgConnection) {}

/// The handle of a clone, which lives long enough.
#[idempotent(scope = "cloned", tenant = account.id, store = app.idempotency.clone())]
async fn cloned(State(app): State<App>, account: Account, _tx: &mut PgConnection) {}

fn main() {
    let _: Router<App> = Router::new()
        .route("/", post(constants).put(expressions).patch(captured).delete(awaited))
        .route("/more", post(joined).put(cloned).patch(kept));
}
