#![deny(warnings)]

use idem_ui::*;

#[idempotent(scope = "jobs.run", tenant = shared)]
async fn run(tx: &mut PgConnection) {
    let _ = tx;
}

fn main() {
    let _: Router<App> = Router::new().route("/", post(run));
}
