use idem_ui::*;

trait Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    async fn pay(account: Account, tx: &mut PgConnection) -> impl IntoResponse;
}

fn main() {}
