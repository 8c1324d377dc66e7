#![allow(dead_code, unused_variables)]

use idem_ui::*;

#[idempotent(scope = "pay", tenant = account.id)]
async fn pay(account: Account, tx: &mut PgConnection) {
    let m = std::sync::Mutex::new(1);
    let g = m.lock().unwrap();
    tokio::task::yield_now().await;
    drop(g);
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(pay));
}
