#![allow(dead_code, unused_must_use)]

use idem_runtime::Once;
use idem_ui::*;

async fn refund(idempotency: &Idempotency<Postgres>, refund: Once) {
    let work = async |_: &mut PgConnection| Ok::<_, sqlx::Error>(ApiError);
    idempotency.once(refund, work).await;
}

fn main() {}
