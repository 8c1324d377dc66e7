#![allow(unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(
    account: Account,
    tx: &mut PgConnection,
) -> Result<StatusCode, StatusCode> {
    sqlx::query("select 1").execute(tx).await?;
    Ok(StatusCode::CREATED)
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
