#![deny(warnings)]

use axum::extract::FromRef;
use idem_runtime::Claim;
use idem_ui::*;
use sqlx::{Connection, PgTransaction, Transaction};

#[derive(Clone, FromRef)]
struct Both {
    postgres: Idempotency<Postgres>,
    sqlite: Idempotency<Sqlite>,
}

#[idempotent(scope = "first", tenant = account.id)]
async fn first(tx: &mut SqliteConnection, account: Account, body: String) -> Result<String, ApiError> {
    let inner = tx.begin().await?;
    inner.commit().await?;
    Ok(body)
}

#[idempotent(scope = "last", tenant = account.id)]
async fn last(account: Account, claim: &Claim, tx: &mut Transaction<'_, Postgres>) -> Result<String, ApiError> {
    sqlx::query("select 1").execute(&mut **tx).await?;
    Ok(claim.key().to_owned())
}

#[idempotent(scope = "middle", tenant = account.id)]
async fn middle(account: Account, tx: &mut sqlx::PgConnection, claim: &Claim, body: String) -> Result<String, ApiError> {
    sqlx::query("select 1").execute(&mut *tx).await?;
    sqlx::query("select $1").bind(claim.key()).execute(tx).await?;
    Ok(body)
}

type OfPostgres<'t> = Transaction<'t, Postgres>;

mod alias {
    pub(super) use super::OfPostgres as Transaction;
}

#[idempotent(scope = "alias", tenant = account.id)]
async fn alias(account: Account, tx: &mut alias::Transaction<'_>) {
    let _ = tx;
}

#[idempotent(scope = "named", tenant = account.id)]
async fn named(account: Account, tx: &mut PgTransaction<'_>) {
    let _ = tx;
}

#[idempotent(scope = "named-too", tenant = account.id)]
async fn named_too(account: Account, tx: &mut sqlx::SqliteTransaction<'_>) {
    let _ = tx;
}

fn main() {
    let _: Router<Both> = Router::new()
        .route("/", post(first).put(last).patch(middle).delete(alias))
        .route("/named", post(named).put(named_too));
}
