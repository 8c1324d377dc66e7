#![deny(warnings)]

use std::sync::Arc;

use axum::Extension;
use idem_runtime::{Backend, Lease};
use idem_ui::*;
use sqlx::Transaction;

trait Repository: Clone + Send + Sync + 'static {
    const NAME: &'static str;

    fn save(&self, tx: &mut PgConnection) -> impl Future<Output = Result<i64, ApiError>> + Send;
}

#[derive(Clone)]
struct Payments;

impl Repository for Payments {
    const NAME: &'static str = "payments";

    async fn save(&self, _: &mut PgConnection) -> Result<i64, ApiError> {
        Ok(1)
    }
}

impl FromRef<App> for Payments {
    fn from_ref(_: &App) -> Self {
        Self
    }
}

#[idempotent(scope = "payments.create", tenant = account.id)]
async fn create<R, const LIMIT: usize>(
    State(repository): State<R>,
    account: Account,
    tx: &mut PgConnection,
) -> Result<String, ApiError>
where
    R: Repository,
{
    let id = repository.save(tx).await?;
    Ok(format!("{} {id} {LIMIT}", R::NAME))
}

#[idempotent(scope = "payments.refund", tenant = account.id)]
async fn refund<DB: Backend>(account: Account, lease: &Lease<DB>) {
    let _ = lease;
}

#[idempotent(scope = "payments.cancel", tenant = account.id)]
async fn cancel<DB>(account: Account, tx: &mut Transaction<'_, DB>)
where
    DB: Backend,
{
    let _ = tx;
}

// What a type parameter has anyway may be said, and it may be a trait's object.
#[idempotent(scope = "payments.list", tenant = account.id)]
async fn list<S>(Extension(named): Extension<Arc<S>>, account: Account, tx: &mut PgConnection)
where
    S: Named + Send + Sync + ?Sized + 'static,
{
    let _ = (named.name(), tx);
}

trait Named {
    fn name(&self) -> &'static str;
}

impl Named for Payments {
    fn name(&self) -> &'static str {
        "payments"
    }
}

fn main() {
    let _: Router<App> = Router::new()
        .route("/", post(create::<Payments, 5>).put(refund::<Postgres>).patch(cancel::<Postgres>).delete(list::<dyn Named + Send + Sync>));
}
